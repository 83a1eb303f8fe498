// The gateway @musistudio/llms in front of the benchmark's upstream: node llms_server.mjs ROOT PORT
import { createRequire } from "node:module";

const Server = createRequire(import.meta.url)("@musistudio/llms").default;
const [root, port] = process.argv.slice(2);
const models = ["bench-answer", "bench-live", "bench-paced"];
const providers = [
  { name: "openai", api_base_url: `${root}/v1/chat/completions`, api_key: "x", models },
  {
    name: "gemini",
    api_base_url: `${root}/v1beta/models/`,
    api_key: "x",
    models,
    transformer: { use: ["gemini"] },
  },
];
const initialConfig = { providers, HOST: "127.0.0.1", PORT: port, LOG: false };
await new Server({ initialConfig, logger: false }).start();
