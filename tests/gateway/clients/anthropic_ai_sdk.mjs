// The AI SDK with its Anthropic provider: prints what it has read as one JSON object.
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, streamed, prompt] = process.argv.slice(2);
const rang = [];
const options = {
  model: createAnthropic({ baseURL, apiKey: "dummy" })("claude-opus-5-5"),
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
if (streamed === "true") {
  const errors = [];
  const result = streamText({ ...options, onError: ({ error }) => errors.push(String(error)) });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  const [steps, reason] = [await result.steps, await result.finishReason];
  console.log(JSON.stringify({ text, rang, steps: steps.length, reason, errors }));
} else {
  const { text, steps, finishReason } = await generateText(options);
  console.log(JSON.stringify({ text, rang, steps: steps.length, reason: finishReason, errors: [] }));
}
