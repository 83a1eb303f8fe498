import { Value } from "./value";

/** A longer text is displayed as a value, which shows only its beginning. */
const MAX_LENGTH = 2_000;

/** An error message. `log` is the id of a call whose traceback is in the gateway's log. */
export function Failure({ text, log = "" }: { text: string; log?: string }) {
  return (
    <>
      {text.length > MAX_LENGTH ? <Value value={text} label="Error" /> : <p class="card-error">{text}</p>}
      {log && (
        <p class="hint">
          The traceback is in the gateway's log, with <code>{log}</code>.
        </p>
      )}
    </>
  );
}
