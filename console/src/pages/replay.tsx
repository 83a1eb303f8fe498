// Replays an exported run with its original timing.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ErrorBoundary } from "../parts/boundary";
import { RunBody } from "../run/body";
import { Prompt } from "../run/prompt";
import { Player, readExport, type RunExport } from "../run/replay";
import { lasted } from "../run/labels";
import { useTitle } from "../title";

const SPEEDS = [1, 4, 16] as const;
const DAMAGED = (
  <p class="card-error" role="alert">
    This run export is damaged: part of it cannot be displayed.
  </p>
);
/** The open file. It stays open while the user visits other pages. */
const opened = signal<RunExport>();

export function ReplayPage() {
  const [problem, setProblem] = useState("");
  useTitle("Replay");
  const open = async (file: File | undefined) => {
    if (!file) return;
    try {
      opened.value = readExport(await file.text());
      setProblem("");
    } catch (error) {
      setProblem(`${file.name}: ${(error as Error).message}`);
    }
  };
  const dropped = (event: DragEvent) => {
    event.preventDefault();
    void open(event.dataTransfer?.files[0]);
  };
  return (
    <section class="page run-page" onDragOver={(event) => event.preventDefault()} onDrop={dropped}>
      <h1>Replay</h1>
      <label class="replay-file">
        Choose the file of an exported run, or drop it here
        <input type="file" accept=".json,application/json" onChange={(event) => void open(event.currentTarget.files?.[0])} />
      </label>
      {!opened.value && <p class="hint">To get such a file, press Export on the page of a run. The file stays in this browser.</p>}
      {problem && (
        <p class="card-error" role="alert">
          {problem}
        </p>
      )}
      {opened.value && (
        <ErrorBoundary key={opened.value} instead={DAMAGED}>
          <Replayed file={opened.value} />
        </ErrorBoundary>
      )}
    </section>
  );
}

function Replayed({ file }: { file: RunExport }) {
  const player = useMemo(() => new Player(file.events), [file]);
  const [speed, setSpeed] = useState<number>(1);
  const [playing, setPlaying] = useState(true);
  const now = useSignal(player.start);
  const position = now.value - player.start;
  const at = (seconds: number) => {
    now.value = player.start + Math.min(Math.max(0, seconds), player.seconds);
    if (seconds >= player.seconds) setPlaying(false);
  };
  usePlaying(playing, speed, (passed) => at(now.peek() - player.start + passed));
  const view = useMemo(() => player.at(position), [player, position]);
  const toggle = () => {
    if (!playing && position >= player.seconds) at(0);
    setPlaying(!playing);
  };
  return (
    <>
      <div class="row replay" role="group" aria-label="Player">
        <button type="button" class="main" onClick={toggle}>
          {playing ? "Pause" : "Play"}
        </button>
        {SPEEDS.map((each) => (
          <button type="button" aria-pressed={speed === each} onClick={() => setSpeed(each)}>
            {each}×
          </button>
        ))}
        <button type="button" onClick={() => at(player.seconds)}>
          Skip to end
        </button>
        <input
          class="grow"
          type="range"
          min={0}
          max={player.seconds}
          step="any"
          value={position}
          aria-label="Position in the run"
          aria-valuetext={`${lasted(position)} of ${lasted(player.seconds)}`}
          onInput={(event) => at(event.currentTarget.valueAsNumber)}
        />
        <span class="hint replay-place">
          {lasted(position)} of {lasted(player.seconds)}
        </span>
      </div>
      <Prompt messages={view.messages} />
      <RunBody view={view} runId={view.id} live={false} now={now} timeline />
    </>
  );
}

/** Calls `advance` on each frame with the elapsed seconds, multiplied by the speed. */
function usePlaying(playing: boolean, speed: number, advance: (seconds: number) => void): void {
  useEffect(() => {
    if (!playing) return;
    let last = performance.now();
    let frame = requestAnimationFrame(function next(time) {
      frame = requestAnimationFrame(next);
      advance((speed * Math.max(0, time - last)) / 1000);
      last = time;
    });
    return () => cancelAnimationFrame(frame);
  }, [playing, speed]);
}
