/** What a translation must share with its source, and where the two differ. */
export function translationProblems(english: string, chinese: string): string[] {
  const [from, to] = [english, chinese].map(partsOf) as [Parts, Parts]; // one result per text
  const words = new Set([...from.numbers, ...numberWords(english)]);
  return [
    ...missing('number', from.numbers, new Set(to.numbers)),
    ...missing('number without a source', to.numbers, words),
    ...unequal('code', from.code, to.code),
    ...unequal('links', from.links, to.links),
    ...(HAN.test(to.prose) ? [] : [`not translated: ${english.slice(0, 60)}`]),
  ];
}

const HAN = /\p{Script=Han}/u;

interface Parts {
  /** Code spans and fenced blocks, sorted. */
  readonly code: readonly string[];
  /** Targets of links, sorted. */
  readonly links: readonly string[];
  /** Numbers of the prose without separators of thousands. */
  readonly numbers: readonly string[];
  readonly prose: string;
}

const FENCED = /^```\w*\n([\s\S]*?)^```$/gm;
const SPAN = /`([^`\n]+)`/g;
const LINK = /\]\(([^)\s]+)\)/g;
const NUMBER = /\d+(?:,\d{3})*(?:\.\d+)?/g;

function partsOf(text: string): Parts {
  const captured = (pattern: RegExp, from: string): string[] =>
    [...from.matchAll(pattern)].map(([, inner = '']) => inner).sort();
  const withoutBlocks = text.replaceAll(FENCED, '');
  const links = captured(LINK, withoutBlocks);
  const prose = withoutBlocks.replaceAll(SPAN, '').replaceAll(LINK, ']');
  const numbers = (prose.match(NUMBER) ?? []).map((number) => number.replaceAll(',', ''));
  return { code: [...captured(FENCED, text), ...captured(SPAN, withoutBlocks)], links, numbers, prose };
}

const WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'] as const;

/** The numbers that an English text writes as words: a translation may write them as digits. */
function numberWords(text: string): string[] {
  return WORDS.flatMap((word, i) => (new RegExp(`\\b${word}\\b`, 'i').test(text) ? [String(i + 1)] : []));
}

function missing(what: string, wanted: readonly string[], there: ReadonlySet<string>): string[] {
  return wanted.filter((each) => !there.has(each)).map((each) => `${what}: ${each}`);
}

function unequal(what: string, from: readonly string[], to: readonly string[]): string[] {
  const without = (list: readonly string[], others: readonly string[]): string[] => {
    const left = [...others];
    return list.filter((each) => {
      const at = left.indexOf(each);
      if (at >= 0) left.splice(at, 1);
      return at < 0;
    });
  };
  return [
    ...without(from, to).map((each) => `${what} not in the translation: ${each}`),
    ...without(to, from).map((each) => `${what} not in the source: ${each}`),
  ];
}
