// The AI SDK against a gateway: `node ai_sdk.mjs PROVIDER TASK BASE_URL MODEL` prints what came of it.

import { createOpenResponses } from "@ai-sdk/open-responses";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const DEGREES = { Paris: 21, Rome: 18 };
const MODELS = {
  openai: (url, model) => createOpenAI({ baseURL: url, apiKey: "any" })(model),
  "open-responses": (url, model) =>
    createOpenResponses({ name: "windlass", url: `${url}/responses`, apiKey: "any" })(model),
};

const ran = [];
const getWeather = tool({
  description: "The degrees in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => {
    ran.push(city);
    return DEGREES[city];
  },
});

const TASKS = {
  generate: async (options) => {
    const done = await generateText(options);
    return { text: done.text, reason: done.finishReason, usage: done.totalUsage };
  },
  stream: async (options) => {
    const answer = streamText({
      ...options,
      onError: ({ error }) => {
        throw error;
      },
    });
    const pieces = [];
    for await (const piece of answer.textStream) pieces.push(piece);
    return {
      text: pieces.join(""),
      pieces: pieces.length,
      reason: await answer.finishReason,
      usage: await answer.totalUsage,
    };
  },
};

const [provider, task, url, model] = process.argv.slice(2);
const done = await TASKS[task]({
  model: MODELS[provider](url, model),
  system: "Be short.",
  prompt: "Which city is warmer, Paris or Rome?",
  tools: { get_weather: getWeather },
  stopWhen: stepCountIs(5),
  maxRetries: 0,
});
console.log(JSON.stringify({ ...done, ran }));
