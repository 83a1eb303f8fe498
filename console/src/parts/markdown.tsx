// What a model writes, as Markdown. It becomes elements one by one, never markup.
import { Component, type ComponentChild } from "preact";
import { useRef } from "preact/hooks";
import type { Block, Item } from "./blocks";
import { Code } from "./code";
import { GrowingText, type Piece } from "./growing";
import { inlinesOf, type Inline } from "./inline";
import "../styles/parts.css";

const SAFE_ADDRESS = /^(https?:|mailto:)/i;

/** `busy` while more of the text is to come. Nothing in it is loaded: its images are links. */
export function Markdown({ text, busy = false }: { text: string; busy?: boolean }) {
  const growing = useRef<GrowingText | null>(null);
  growing.current ??= new GrowingText();
  const pieces = growing.current.read(text);
  const levels = headingLevels(pieces.map(({ block }) => block));
  return (
    <div class="md" aria-busy={busy}>
      {pieces.map((piece, at) => (
        <Made piece={piece} level={levels[at] ?? 0} />
      ))}
    </div>
  );
}

/** Levels from 2 on that never skip one, whatever the model has skipped. */
export function headingLevels(blocks: readonly Block[]): number[] {
  const above: number[] = [];
  return blocks.map((block) => {
    if (block.kind !== "heading") return 0;
    while ((above.at(-1) ?? 0) >= block.depth) above.pop();
    return Math.min(6, above.push(block.depth) + 1);
  });
}

interface MadeProps {
  piece: Piece;
  level: number;
}

/** Made once for the same text: of an answer that streams, only the end is made again. */
class Made extends Component<MadeProps> {
  override shouldComponentUpdate({ piece, level }: MadeProps): boolean {
    return piece.raw !== this.props.piece.raw || level !== this.props.level;
  }

  override render({ piece, level }: MadeProps) {
    return element(piece.block, level);
  }
}

/** A heading inside of something else has no level among the page's headings. */
function element(block: Block, level = 0): ComponentChild {
  switch (block.kind) {
    case "paragraph":
      return <p>{words(block.text)}</p>;
    case "heading": {
      if (!level) return <p class="md-h4">{words(block.text)}</p>;
      const Heading = `h${level}` as "h2";
      return <Heading class={`md-h${block.depth}`}>{words(block.text)}</Heading>;
    }
    case "code":
      return <Code text={block.text} language={block.language} />;
    case "quote":
      return <blockquote>{block.blocks.map((inner) => element(inner))}</blockquote>;
    case "list": {
      const items = block.items.map((item) => listItem(item, block.loose));
      return block.first === null ? <ul>{items}</ul> : <ol start={block.first}>{items}</ol>;
    }
    case "table":
      return <Table table={block} />;
    case "rule":
      return <hr />;
  }
}

function listItem({ done, blocks }: Item, loose: boolean) {
  const task = done !== null && <input type="checkbox" checked={done} disabled aria-label={done ? "Done" : "To do"} />;
  const inner = blocks.map((block) => (block.kind === "paragraph" && !loose ? words(block.text) : element(block)));
  return (
    <li class={task ? "md-task" : undefined}>
      {task}
      {inner}
    </li>
  );
}

function Table({ table }: { table: Block & { kind: "table" } }) {
  const side = (at: number) => (table.aligns[at] ? `md-${table.aligns[at]}` : undefined);
  return (
    <div class="md-table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {table.header.map((cell, at) => (
              <th class={side(at)}>{words(cell)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>
              {row.map((cell, at) => (
                <td class={side(at)}>{words(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function words(text: string): ComponentChild[] {
  return inlinesOf(text).map(inline);
}

function inline(node: Inline): ComponentChild {
  if (typeof node === "string") return node;
  switch (node.kind) {
    case "code":
      return <code>{node.text}</code>;
    case "break":
      return <br />;
    case "link":
      return outward(node.address, node.inner.map(inline)) ?? [...node.inner.map(inline), ` (${node.address})`];
    case "image": {
      const name = `Image: ${node.text || "untitled"}`;
      return outward(node.address, name) ?? name;
    }
    default: {
      const Mark = node.kind;
      return <Mark>{node.inner.map(inline)}</Mark>;
    }
  }
}

/** A link out of the page, or nothing for an address that is not one of the web's or of a mailbox. */
function outward(address: string, text: ComponentChild): ComponentChild {
  if (!SAFE_ADDRESS.test(address)) return null;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer">
      {text}
    </a>
  );
}
