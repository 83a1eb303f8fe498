// What a model writes, as Markdown. It becomes elements one by one, never markup.
import { Component, type ComponentChild } from "preact";
import { useRef } from "preact/hooks";
import type { MarkedToken, Token, Tokens } from "marked";
import { BlockReader } from "./blocks";
import { Code } from "./code";
import "../styles/parts.css";

const DEEPEST = 24;
const SAFE_ADDRESS = /^(https?:|mailto:)/i;
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** `busy` while more of the text is to come. Nothing in it is loaded: its images are links. */
export function Markdown({ text, busy = false }: { text: string; busy?: boolean }) {
  const reader = useRef<BlockReader | null>(null);
  reader.current ??= new BlockReader();
  const blocks = reader.current.read(text, busy);
  const levels = headingLevels(blocks);
  const defined = blocks.filter((block) => block.type === "def").length;
  return (
    // A definition changes links in blocks that stay the same: then all of them are made anew.
    <div class="md" key={defined}>
      {blocks.map((block, at) => (
        <Block token={block} level={levels[at] ?? 0} />
      ))}
    </div>
  );
}

/** Levels from 2 on that never skip one, whatever the model has skipped. */
export function headingLevels(blocks: readonly Token[]): number[] {
  const above: number[] = [];
  return blocks.map((block) => {
    if (block.type !== "heading") return 0;
    while ((above.at(-1) ?? 0) >= block["depth"]) above.pop();
    above.push(block["depth"]);
    return Math.min(6, above.length + 1);
  });
}

interface BlockProps {
  token: Token;
  level: number;
}

/** Made once for the same text: of an answer that streams, only the end is made again. */
class Block extends Component<BlockProps> {
  override shouldComponentUpdate(next: BlockProps): boolean {
    const { token, level } = this.props;
    return token.raw !== next.token.raw || token.type !== next.token.type || level !== next.level;
  }

  override render({ token, level }: BlockProps) {
    if (token.type !== "heading" || !level) return element(token, 0);
    const Heading = `h${level}` as "h2";
    return <Heading class={`md-h${token["depth"]}`}>{elements(token.tokens, 0)}</Heading>;
  }
}

function elements(tokens: readonly Token[] | undefined, depth: number): ComponentChild[] {
  return (tokens ?? []).map((token) => element(token, depth));
}

function element(token: Token, depth: number): ComponentChild {
  if (depth > DEEPEST) return token.raw;
  const inner = (tokens: readonly Token[] | undefined) => elements(tokens, depth + 1);
  const known = token as MarkedToken;
  switch (known.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p>{inner(known.tokens)}</p>;
    case "heading":
      return (
        <p>
          <strong>{inner(known.tokens)}</strong>
        </p>
      );
    case "text":
      return known.tokens ? inner(known.tokens) : characters(known.text);
    case "code":
      return <Code text={known.text} {...language(known.lang)} />;
    case "list":
      return <List list={known} inner={inner} />;
    case "list_item":
      return inner(known.tokens);
    case "checkbox":
      return <input type="checkbox" checked={known.checked} disabled aria-label={known.checked ? "Done" : "To do"} />;
    case "blockquote":
      return <blockquote>{inner(known.tokens)}</blockquote>;
    case "table":
      return <Table table={known} inner={inner} />;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "strong":
      return <strong>{inner(known.tokens)}</strong>;
    case "em":
      return <em>{inner(known.tokens)}</em>;
    case "del":
      return <del>{inner(known.tokens)}</del>;
    case "codespan":
      return <code>{known.text}</code>;
    case "escape":
      return known.text;
    case "link":
      return outward(known.href, inner(known.tokens)) ?? known.raw;
    case "image": {
      const name = `Image: ${known.text || "untitled"}`;
      return outward(known.href, name) ?? name;
    }
    case "html":
      return known.block ? <p>{known.raw.trim()}</p> : known.raw;
    default:
      known satisfies never;
      return token.raw;
  }
}

type Inner = (tokens: readonly Token[] | undefined) => ComponentChild[];

function List({ list, inner }: { list: Tokens.List; inner: Inner }) {
  const items = list.items.map((item) => <li class={item.task ? "md-task" : undefined}>{inner(item.tokens)}</li>);
  return list.ordered ? <ol start={Number(list.start)}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table, inner }: { table: Tokens.Table; inner: Inner }) {
  return (
    <div class="md-table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {table.header.map((cell) => (
              <th class={aligned(cell)}>{inner(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td class={aligned(cell)}>{inner(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function aligned(cell: Tokens.TableCell): string | undefined {
  return cell.align ? `md-${cell.align}` : undefined;
}

function language(name: string | undefined): { language?: string } {
  const word = name?.trim().split(/\s/, 1)[0];
  return word ? { language: word } : {};
}

/** A link out of the page, or nothing for an address that is not one of the web's or of a mailbox. */
function outward(address: string, text: ComponentChild) {
  if (!SAFE_ADDRESS.test(address)) return null;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer">
      {text}
    </a>
  );
}

function characters(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|apos|nbsp);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}
