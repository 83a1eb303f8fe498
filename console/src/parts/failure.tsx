import { Value } from "./value";

/** More than this is no sentence, and is shown as a value is: in part. */
const SENTENCE = 2_000;

/** Why something failed, in the words of whatever failed. */
export function Failure({ text }: { text: string }) {
  return text.length > SENTENCE ? <Value value={text} label="Error" /> : <p class="card-error">{text}</p>;
}
