// Texts for a tool. Pure.

/** Where a tool runs. */
export function locationOf(origin: string): string {
  const [kind, name] = [origin.split(":", 1)[0], origin.slice(origin.indexOf(":") + 1)];
  if (kind === "mcp") return `MCP server ${name}`;
  return kind === "worker" ? `worker of session ${name}` : "this gateway";
}

/** The first sentence or line of a description, for a list. */
export function firstSentence(description: string): string {
  return description.trim().split(/(?<=[.!?])\s|\n/, 1)[0] ?? "";
}

/** Whether the name and description contain every word. */
export function matches(search: string, tool: { name: string; description: string }): boolean {
  const text = `${tool.name} ${tool.description}`.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
