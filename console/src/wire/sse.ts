// Server-sent events out of bytes. Pure.

export interface ServerEvent {
  id: string;
  data: string;
}

const BLANK_LINE = /\r?\n\r?\n/;

/** Takes text as it comes and gives the events that are complete. */
export class EventParser {
  private rest = "";
  /** Its last signs, which may be the beginning of a blank line. */
  private end = "";

  feed(text: string): ServerEvent[] {
    const seam = this.end + text;
    this.end = seam.slice(-3);
    this.rest += text;
    // A long event comes in many pieces: it is looked through once, when all of it is there.
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
