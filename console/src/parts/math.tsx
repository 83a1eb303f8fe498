// TeX math as MathML, which browsers draw themselves: the commands that models use. Pure.
//
// Libraries that read all of TeX are as large as the rest of the page (Temml: 213 kB, KaTeX: more).
// A formula with an unknown command is shown as its source.
import { h, type ComponentChild, type VNode } from "preact";

const GREEK = "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ emptyset ∅ varnothing ∅ aleph ℵ angle ∠ degree ° triangle △ top ⊤ bot ⊥ checkmark ✓ dots … ldots … cdots ⋯ vdots ⋮ ddots ⋱ prime ′";
const OPERATORS = "times × div ÷ cdot ⋅ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ otimes ⊗ odot ⊙ leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ cup ∪ cap ∩ setminus ∖ land ∧ wedge ∧ lor ∨ vee ∨ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄ to → rightarrow → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ iff ⟺ mapsto ↦ longrightarrow ⟶ uparrow ↑ downarrow ↓ perp ⊥ parallel ∥ mid ∣ vert | Vert ‖ lvert | rvert | langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ therefore ∴ because ∵ colon : lbrace { rbrace } backslash \\";
const LARGE = "sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ bigcup ⋃ bigcap ⋂";
const FUNCTIONS = new Set("sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan log ln lg exp det dim ker deg gcd min max inf sup lim arg Pr bmod".split(" "));
const ACCENTS: Record<string, string> = { hat: "^", widehat: "^", bar: "¯", overline: "¯", tilde: "~", widetilde: "~", vec: "→", dot: "˙", ddot: "¨" };
const SPACES: Record<string, string> = { ",": "0.17em", ":": "0.22em", ";": "0.28em", "!": "-0.17em", " ": "0.33em", quad: "1em", qquad: "2em", "~": "0.33em" };
const FONTS: Record<string, string> = { mathrm: "normal", operatorname: "normal", mathbf: "bold", boldsymbol: "bold", bm: "bold", mathbb: "double-struck", mathcal: "script", mathit: "italic", mathsf: "sans-serif", mathtt: "monospace" };
const FENCES: Record<string, [string, string]> = { pmatrix: ["(", ")"], bmatrix: ["[", "]"], Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"], cases: ["{", ""] };
const TABLES = ["matrix", "smallmatrix", "aligned", "align", "align*", "gathered", "gather", "gather*", "split", "array", "equation", "equation*", ...Object.keys(FENCES)];
/** Letters of these fonts that Unicode has outside of their block. */
const LETTERS: Record<string, Record<string, string>> = { "double-struck": { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" } };

const identifiers = table(GREEK);
const operators = table(OPERATORS);
const largeOperators = table(LARGE);

function table(pairs: string): Map<string, string> {
  const words = pairs.split(" ");
  return new Map(words.flatMap((name, index) => (index % 2 ? [] : [[name, words[index + 1] ?? ""] as const])));
}

/** A formula, in a line of its own if it is a `display`. */
export function Formula({ tex, display }: { tex: string; display: boolean }) {
  const drawn = mathOf(tex);
  if (!drawn) return <code>{tex}</code>;
  return m("math", { display: display ? "block" : "inline", "aria-label": tex }, drawn);
}

/** The MathML of a formula; null if it has an unknown command or cannot be read. */
export function mathOf(tex: string): VNode | null {
  try {
    return row(new Parser(tex).whole());
  } catch (error) {
    if (error instanceof Unreadable || error instanceof RangeError) return null;
    throw error;
  }
}

class Unreadable extends Error {}

const TOKEN = /\\(?:[a-zA-Z]+|[^])|[0-9]+(?:[.,][0-9]+)*|[^\s]/gu;

class Parser {
  private readonly tokens: string[];
  private at = 0;

  constructor(private readonly source: string) {
    this.tokens = source.match(TOKEN) ?? [];
  }

  whole(): VNode[] {
    return this.until(() => this.at >= this.tokens.length);
  }

  private until(ended: () => boolean): VNode[] {
    const items: VNode[] = [];
    while (!ended()) {
      if (this.at >= this.tokens.length) throw new Unreadable();
      items.push(this.scripted());
    }
    return items;
  }

  private peek(): string {
    return this.tokens[this.at] ?? "";
  }

  private take(): string {
    const token = this.tokens[this.at++];
    if (token === undefined) throw new Unreadable();
    return token;
  }

  /** An item with its subscript and superscript. */
  private scripted(): VNode {
    const token = this.peek();
    const base = token === "^" || token === "_" ? m("mrow", null) : this.item();
    let below: VNode | undefined;
    let above: VNode | undefined;
    for (;;) {
      if (this.peek() === "_" && !below) {
        this.take();
        below = this.item();
      } else if (this.peek() === "^" && !above) {
        this.take();
        above = this.item();
      } else if (this.peek() === "'" && !above) {
        let primes = "";
        for (; this.peek() === "'"; this.take()) primes += "′";
        above = m("mo", null, primes);
      } else break;
    }
    const limits = largeOperators.has(token.slice(1)) ? !token.includes("int") : ["\\lim", "\\max", "\\min", "\\sup", "\\inf"].includes(token);
    if (below && above) return m(limits ? "munderover" : "msubsup", null, base, below, above);
    if (below) return m(limits ? "munder" : "msub", null, base, below);
    return above ? m(limits ? "mover" : "msup", null, base, above) : base;
  }

  private item(): VNode {
    const token = this.take();
    if (token === "{") return row(this.group());
    if (token === "}" || token === "&" || token === "^" || token === "_") throw new Unreadable();
    if (token.startsWith("\\")) return this.command(token.slice(1));
    if (/^[0-9]/.test(token)) return m("mn", null, token);
    if (/^\p{L}$/u.test(token)) return m("mi", null, token);
    if (token === "~") return space(SPACES["~"] ?? "");
    return operator(token === "-" ? "−" : token === "*" ? "∗" : token);
  }

  /** The rest of a group whose brace was read. */
  private group(): VNode[] {
    const items = this.until(() => this.peek() === "}");
    this.take();
    return items;
  }

  private argument(): VNode {
    return this.item();
  }

  /** The text of a braced argument, as written. */
  private text(): string {
    if (this.take() !== "{") throw new Unreadable();
    const words: string[] = [];
    for (let depth = 1; ; ) {
      const token = this.take();
      if (token === "{") depth++;
      if (token === "}" && --depth === 0) return words.join("");
      words.push(token.startsWith("\\") ? token.slice(1) : token);
    }
  }

  private command(name: string): VNode {
    const identifier = identifiers.get(name);
    if (identifier) return m("mi", /^[A-Z]/.test(name) ? { mathvariant: "normal" } : null, identifier);
    const known = operators.get(name);
    if (known) return operator(known);
    const large = largeOperators.get(name);
    if (large) return m("mo", null, large);
    if (FUNCTIONS.has(name)) return m("mi", null, name);
    if (Object.hasOwn(SPACES, name)) return space(SPACES[name] ?? "");
    if (Object.hasOwn(ACCENTS, name)) return m("mover", { accent: "true" }, this.argument(), m("mo", null, ACCENTS[name]));
    if (Object.hasOwn(FONTS, name)) return styled(this.text(), FONTS[name] ?? "");
    switch (name) {
      case "frac":
      case "dfrac":
      case "tfrac":
      case "cfrac":
        return m("mfrac", null, this.argument(), this.argument());
      case "binom":
        return row([operator("("), m("mfrac", { linethickness: "0" }, this.argument(), this.argument()), operator(")")]);
      case "sqrt":
        return this.root();
      case "text":
      case "textrm":
      case "textbf":
      case "textit":
      case "mbox":
        return m("mtext", null, this.spaced());
      case "left":
        return this.fenced();
      case "begin":
        return this.environment();
      case "boxed":
        return m("mrow", { class: "md-boxed" }, this.argument());
      case "underline":
        return m("munder", null, this.argument(), m("mo", null, "_"));
      case "overbrace":
      case "underbrace":
        return m(name === "overbrace" ? "mover" : "munder", null, this.argument(), m("mo", null, name === "overbrace" ? "⏞" : "⏟"));
      case "pmod":
        return row([operator("("), m("mi", null, "mod"), space("0.3em"), this.argument(), operator(")")]);
      case "displaystyle":
      case "limits":
      case "nolimits":
      case "bigl": case "bigr": case "Bigl": case "Bigr": case "big": case "Big": case "bigg": case "Bigg":
        return m("mrow", null);
      case "{": case "}": case "%": case "$": case "#": case "&": case "_":
        return operator(name);
      case "|":
        return operator("‖");
      default:
        throw new Unreadable();
    }
  }

  private root(): VNode {
    if (this.peek() !== "[") return m("msqrt", null, this.argument());
    this.take();
    const index = row(this.until(() => this.peek() === "]"));
    this.take();
    return m("mroot", null, this.argument(), index);
  }

  /** Text with its spaces: tokens do not have them, so it is read from the source. */
  private spaced(): string {
    const said = this.text();
    const compact = (text: string) => text.replace(/[\s\\]/g, "");
    const braced = [...this.source.matchAll(/\{([^{}]*)\}/g)].map((found) => found[1] ?? "");
    return (braced.find((text) => compact(text) === compact(said)) ?? said).replace(/ /g, "\u00a0").replace(/\\/g, "");
  }

  private fence(): string {
    const token = this.take();
    if (token === ".") return "";
    if (!token.startsWith("\\")) return token;
    return { "\\{": "{", "\\}": "}", "\\|": "‖" }[token] ?? operators.get(token.slice(1)) ?? "";
  }

  private fenced(): VNode {
    const open = this.fence();
    const inside = this.until(() => this.peek() === "\\right");
    this.take();
    return row([...fence(open), ...inside, ...fence(this.fence())]);
  }

  private environment(): VNode {
    const name = this.text();
    if (!TABLES.includes(name)) throw new Unreadable();
    if (name === "array" && this.peek() === "{") this.text();
    const rows: VNode[][] = [[]];
    while (this.peek() !== "\\end") {
      const cell = this.until(() => ["&", "\\\\", "\\end"].includes(this.peek()));
      rows.at(-1)?.push(m("mtd", null, row(cell)));
      if (this.peek() === "\\\\") rows.push([]);
      if (this.peek() !== "\\end") this.take();
    }
    this.take();
    if (this.text() !== name) throw new Unreadable();
    const drawn = m("mtable", { class: `md-${name.replace(/\W/g, "")}` }, rows.filter((cells) => cells.length).map((cells) => m("mtr", null, cells)));
    const [open, close] = FENCES[name] ?? ["", ""];
    return row([...fence(open), drawn, ...fence(close)]);
  }
}

/** An element of MathML. */
function m(name: string, attributes: Record<string, string> | null, ...children: ComponentChild[]): VNode {
  return h(name, attributes as object, ...children) as VNode;
}

function row(items: readonly VNode[]): VNode {
  return items.length === 1 && items[0] ? items[0] : m("mrow", null, items as ComponentChild);
}

function operator(sign: string): VNode {
  // Only \\left and \\right stretch.
  return m("mo", /[()[\]{}|‖⟨⟩⌊⌋⌈⌉]/.test(sign) ? ({ stretchy: "false" }) : null, sign);
}

function fence(sign: string): VNode[] {
  return sign ? [m("mo", { stretchy: "true" }, sign)] : [];
}

function space(width: string): VNode {
  return m("mspace", { width });
}

/** Letters in a font. Browsers know only `normal`; the others are characters of Unicode. */
function styled(text: string, font: string): VNode {
  if (font === "normal") return m("mi", { mathvariant: "normal" }, text);
  const starts: Record<string, [upper: number, lower: number]> = {
    bold: [0x1d400, 0x1d41a],
    "double-struck": [0x1d538, 0x1d552],
    script: [0x1d4d0, 0x1d4ea],
    italic: [0x1d434, 0x1d44e],
    "sans-serif": [0x1d5a0, 0x1d5ba],
    monospace: [0x1d670, 0x1d68a],
  };
  const [upper, lower] = starts[font] ?? [0, 0];
  const letter = (sign: string) => {
    const known = LETTERS[font]?.[sign];
    if (known) return known;
    const code = sign.charCodeAt(0);
    if (code >= 65 && code <= 90) return String.fromCodePoint(upper + code - 65);
    return code >= 97 && code <= 122 ? String.fromCodePoint(lower + code - 97) : (identifiers.get(sign) ?? sign);
  };
  return m("mi", { mathvariant: "normal" }, identifiers.get(text) ?? Array.from(text, letter).join(""));
}
