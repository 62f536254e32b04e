import type { MimeBundle } from '../cell/mime';
import type { RankError, RankEvent } from './messages';
import { rankNames } from './selection';

/** Streams beyond this many characters a rank are cut in the middle. */
const LONGEST_STREAM = 200_000;

/** What one rank has shown so far. */
interface RankContent {
  /** Neighbouring pieces of one stream are one entry. */
  readonly shown: ShownItem[];
  result: MimeBundle | undefined;
  error: RankError | undefined;
}

/** One thing that a rank showed before its last value. */
export type ShownItem =
  | { readonly kind: 'text'; readonly name: 'stdout' | 'stderr'; readonly text: string }
  | { readonly kind: 'bundle'; readonly bundle: MimeBundle; readonly displayId: string | undefined };

/** Ranks whose outputs are equal, with that output. */
export interface OutputSection {
  readonly ranks: readonly number[];
  /** "rank 2", or "ranks 0-3 agree". */
  readonly title: string;
  readonly shown: readonly ShownItem[];
  readonly result: MimeBundle | undefined;
  readonly error: RankError | undefined;
}

/** Gathers the outputs of ranks and folds equal ones. Order within a rank is kept; between ranks there is none. */
export class GroupedOutput {
  readonly #contents = new Map<number, RankContent>();

  add(event: RankEvent): void {
    const content = this.#content(event.rank);
    switch (event.kind) {
      case 'stream':
        addText(content.shown, event.name, event.text);
        break;
      case 'display':
        content.shown.push({ kind: 'bundle', bundle: event.bundle, displayId: event.displayId });
        break;
      case 'update':
        replace(content.shown, event.displayId, event.bundle);
        break;
      case 'clear':
        content.shown.length = 0;
        break;
      case 'result':
        content.result = event.bundle;
        break;
      case 'error':
        content.error = event.error;
        break;
      default:
        event satisfies never;
    }
  }

  /** Sections ordered by their first rank; ranks that showed nothing have none. */
  get sections(): OutputSection[] {
    const byOutput = new Map<string, { ranks: number[]; content: RankContent }>();
    for (const [rank, content] of [...this.#contents].sort(([a], [b]) => a - b)) {
      const key = JSON.stringify([content.shown, content.result, errorKey(content.error)]);
      const group = byOutput.get(key);
      if (group === undefined) byOutput.set(key, { ranks: [rank], content });
      else group.ranks.push(rank);
    }
    return [...byOutput.values()].map(({ ranks, content }) => ({
      ranks,
      title: ranks.length === 1 ? rankNames(ranks) : `${rankNames(ranks)} agree`,
      ...content,
      shown: [...content.shown],
    }));
  }

  #content(rank: number): RankContent {
    let content = this.#contents.get(rank);
    if (content === undefined) {
      content = { shown: [], result: undefined, error: undefined };
      this.#contents.set(rank, content);
    }
    return content;
  }
}

function addText(shown: ShownItem[], name: 'stdout' | 'stderr', text: string): void {
  const last = shown.at(-1);
  const joins = last?.kind === 'text' && last.name === name;
  const whole = terminalText(joins ? last.text + text : text);
  if (joins) shown.pop();
  shown.push({ kind: 'text', name, text: shortened(whole) });
}

/** As a terminal shows it: a carriage return starts its line again. */
function terminalText(text: string): string {
  return text.includes('\r') ? text.replace(/\r\n/g, '\n').replace(/^.*\r(?!$)/gm, '') : text;
}

function shortened(text: string): string {
  if (text.length <= LONGEST_STREAM) return text;
  const half = LONGEST_STREAM / 2;
  return `${text.slice(0, half)}\n… (cut)\n${text.slice(-half)}`;
}

function replace(shown: ShownItem[], displayId: string, bundle: MimeBundle): void {
  const at = shown.findIndex((item) => item.kind === 'bundle' && item.displayId === displayId);
  if (at >= 0) shown[at] = { kind: 'bundle', bundle, displayId };
}

function errorKey(error: RankError | undefined): unknown {
  return error === undefined ? null : [error.ename, error.evalue, error.line];
}
