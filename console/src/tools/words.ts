// How a tool is told in words. Pure.

/** Where a tool lives. */
export function homeOf(origin: string): string {
  const [kind, name] = [origin.split(":", 1)[0], origin.slice(origin.indexOf(":") + 1)];
  if (kind === "mcp") return `MCP server ${name}`;
  return kind === "worker" ? `worker of session ${name}` : "this gateway";
}

/** The first sentence or line of a description, for a list. */
export function shortly(description: string): string {
  return description.trim().split(/(?<=[.!?])\s|\n/, 1)[0] ?? "";
}

/** Whether every word stands in the name or the description. */
export function isFound(sought: string, tool: { name: string; description: string }): boolean {
  const text = `${tool.name} ${tool.description}`.toLowerCase();
  return sought.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
