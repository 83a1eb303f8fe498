// The page's way to the fake's server.
import { options } from "./options.js";

export class Refused extends Error {
  constructor(error) {
    super(error.message);
    this.where = error.where;
  }
}

export function tell(path, body) {
  return fetch(`/replica/${path}`, { method: "POST", body: JSON.stringify(body) });
}

/** Returns when the script lets the page go on at this place. */
export async function passed(place) {
  if (options.late.includes(place)) await fetch(`/replica/gate/${place}`);
}

/** The events of the answer, as they come. Throws `Refused`, or whatever else went wrong. */
export async function* eventsOf(request, signal) {
  const body = JSON.stringify(request);
  const answer = await fetch("/replica/generate", { method: "POST", body, signal });
  if (!answer.ok) throw new Refused(await answer.json());
  let rest = "";
  for await (const text of answer.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) yield JSON.parse(frame.replace(/^data: /, ""));
  }
}
