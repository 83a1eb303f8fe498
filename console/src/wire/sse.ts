// A parser for server-sent events. Pure.

export interface ServerEvent {
  id: string;
  data: string;
}

const BLANK_LINE = /\r?\n\r?\n/;

/** Takes text in chunks and returns complete events. */
export class EventParser {
  private rest = "";
  /** The last characters, which may start a blank line. */
  private end = "";

  feed(text: string): ServerEvent[] {
    const seam = this.end + text;
    this.end = seam.slice(-3);
    this.rest += text;
    // A long event arrives in many chunks: search it once, when it is complete.
    if (!BLANK_LINE.test(seam)) return [];
    const pieces = this.rest.split(BLANK_LINE);
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
