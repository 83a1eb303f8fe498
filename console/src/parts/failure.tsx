import { Value } from "./value";

/** More than this is no sentence, and is shown as a value is: in part. */
const SENTENCE = 2_000;

/** Why something failed, in its own words. With `log`, the id of a call whose traceback is in the gateway's log. */
export function Failure({ text, log = "" }: { text: string; log?: string }) {
  return (
    <>
      {text.length > SENTENCE ? <Value value={text} label="Error" /> : <p class="card-error">{text}</p>}
      {log && (
        <p class="hint">
          The traceback is in the gateway's log, with <code>{log}</code>.
        </p>
      )}
    </>
  );
}
