// The AI SDK with one of its providers: prints what it has read as one JSON object.
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const MODELS = {
  anthropic: async (options) => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return createAnthropic(options)("claude-opus-5-5");
  },
  google: async (options) => {
    const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
    return createGoogleGenerativeAI(options)("gemini-2.5-flash");
  },
};

const [provider, baseURL, streamed, prompt] = process.argv.slice(2);
const rang = [];
const options = {
  model: await MODELS[provider]({ baseURL, apiKey: "dummy" }),
  prompt,
  maxRetries: 0,
  stopWhen: stepCountIs(5),
  tools: {
    ring: tool({
      description: "Rings a bell.",
      inputSchema: z.object({ times: z.number() }),
      execute: async ({ times }) => {
        rang.push(times);
        return `rang ${times}`;
      },
    }),
  },
};
const errors = [];
const seen = { text: "", steps: 0, reason: "" };
if (streamed === "true") {
  const result = streamText({ ...options, onError: ({ error }) => errors.push(String(error)) });
  for await (const piece of result.textStream) seen.text += piece;
  if (!errors.length) {
    seen.steps = (await result.steps).length;
    seen.reason = await result.finishReason;
  }
} else {
  try {
    const { text, steps, finishReason } = await generateText(options);
    Object.assign(seen, { text, steps: steps.length, reason: finishReason });
  } catch (error) {
    errors.push(String(error));
  }
}
console.log(JSON.stringify({ ...seen, rang, errors }));
