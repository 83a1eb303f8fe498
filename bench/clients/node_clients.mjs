// The Node clients. Each forces a call of its own tool, and must receive the call.
//
// `node node_clients.mjs NAME BASE_URL MODEL...` prints one JSON object per line, with model, method
// and error.

import assert from "node:assert/strict";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, hasToolCall, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const QUESTION = "Report the weather in Paris.";
const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "integer" } },
  required: ["city", "degrees"],
};
const TOOL = {
  type: "function",
  function: { name: "report", description: "Reports the weather.", parameters: PARAMETERS },
};
const NAMED = { type: "function", function: { name: "report" } };

function openaiNode(baseURL, model) {
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  const asked = { model, messages: [{ role: "user", content: QUESTION }], tools: [TOOL] };
  const checked = (message) => {
    assert.equal(message.tool_calls?.[0]?.function.name, "report", `text: ${message.content}`);
    assert.equal(typeof JSON.parse(message.tool_calls[0].function.arguments).city, "string");
  };
  const blocking = async (tool_choice) =>
    checked((await client.chat.completions.create({ ...asked, tool_choice })).choices[0].message);
  const streamed = async () =>
    checked(await client.chat.completions.stream({ ...asked, tool_choice: "required" }).finalMessage());
  const helper = async () => {
    let reported = 0;
    const runnable = {
      type: "function",
      function: { ...TOOL.function, parse: JSON.parse, function: () => `reported ${++reported}` },
    };
    const runner = client.chat.completions.runTools(
      { ...asked, tools: [runnable], tool_choice: NAMED },
      { maxChatCompletions: 3 },
    );
    await runner.done();
    assert.equal(reported, 1);
  };
  return {
    required: () => blocking("required"),
    "required, streamed": streamed,
    named: () => blocking(NAMED),
    "runTools, named": helper,
  };
}

function aiSdk(provider) {
  return (baseURL, model) => {
    const asked = {
      model: provider(baseURL)(model),
      prompt: QUESTION,
      toolChoice: "required",
      maxRetries: 0,
    };
    const inputSchema = z.object({ city: z.string(), degrees: z.number().int() });
    const description = "Reports the weather.";
    // Without `execute` the call is the caller's; the pattern for a final, structured answer.
    const report = tool({ description, inputSchema });
    const checked = (calls) => {
      assert.equal(calls[0]?.toolName, "report", "text instead of a call");
      assert.equal(typeof calls[0].input.city, "string");
    };
    return {
      "generateText, required": async () =>
        checked((await generateText({ ...asked, tools: { report } })).toolCalls),
      "streamText, required": async () => {
        const answer = streamText({
          ...asked,
          tools: { report },
          onError: ({ error }) => {
            throw error;
          },
        });
        await answer.consumeStream();
        checked(await answer.toolCalls);
      },
      "generateText, agent": async () => {
        const runs = tool({ description, inputSchema, execute: ({ city }) => `reported ${city}` });
        const done = await generateText({
          ...asked,
          tools: { report: runs },
          stopWhen: [hasToolCall("report"), stepCountIs(4)],
        });
        assert.equal(done.steps.length, 1);
        checked(done.toolCalls);
      },
      "generateText, named": async () => {
        const toolChoice = { type: "tool", toolName: "report" };
        checked((await generateText({ ...asked, tools: { report }, toolChoice })).toolCalls);
      },
    };
  };
}

const CLIENTS = {
  "openai-node": openaiNode,
  "ai-sdk (openai-compatible)": aiSdk((baseURL) =>
    createOpenAICompatible({ name: "windlass", baseURL }),
  ),
  "ai-sdk (openai)": aiSdk((baseURL) => createOpenAI({ baseURL, apiKey: "none" }).chat),
};

const [name, url, ...models] = process.argv.slice(2);
for (const model of models) {
  for (const [method, ask] of Object.entries(CLIENTS[name](url, model))) {
    let error = "";
    try {
      await ask();
    } catch (problem) {
      console.error(problem);
      error = `${problem.name}: ${problem.message}`;
    }
    console.log(JSON.stringify({ model, method, error }));
  }
}
