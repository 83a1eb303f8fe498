// The tools that the gateway offers, and what was last done with them.
import { request } from "./api";
import type { Tool, ToolList } from "./types";

export async function offeredTools(): Promise<Tool[]> {
  return ((await (await request("/v1/tools")).json()) as ToolList).data;
}

export async function offeredTool(name: string): Promise<Tool> {
  return (await request(`/v1/tools/${encodeURIComponent(name)}`)).json();
}
