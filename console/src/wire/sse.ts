// Server-sent events out of bytes. Pure.

export interface ServerEvent {
  id: string;
  data: string;
}

/** Takes text as it comes and gives the events that are complete. */
export class EventParser {
  private rest = "";

  feed(text: string): ServerEvent[] {
    const pieces = (this.rest + text).split(/\r?\n\r?\n/);
    this.rest = pieces.pop() ?? "";
    return pieces.map(parsed).filter((event) => event.data !== "");
  }
}

function parsed(block: string): ServerEvent {
  const event = { id: "", data: "" };
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("data:")) event.data += (event.data && "\n") + line.slice(5).trimStart();
    else if (line.startsWith("id:")) event.id = line.slice(3).trim();
  }
  return event;
}
