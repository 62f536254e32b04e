import { inspect } from 'node:util';
import type { StrategyName } from '../../config';
import { ConfigError, isWhole, type Language, languages, listed, shown, type Text } from '../../core';
import { describeFault, FAULT_KINDS, type Fault } from './faults';
import { type PointText, parsePointText } from './point-text';

/** The strategy under which a mystery's point exists, and its fault. */
interface Case {
  readonly strategy: StrategyName;
  readonly fault: Fault;
}

const sealedIn = (strategy: StrategyName, rank: number, at: string, kind: Fault['do']): Case => ({
  strategy,
  fault: { rank, at, do: kind },
});

/** The twelve mysteries. All except the two with 'nan' are silent: the loss stays finite and falls. */
const CASES: readonly Case[] = [
  sealedIn('FULL_SHARD', 2, 'reduceScatter layer 1', 'skip'),
  sealedIn('FULL_SHARD', 1, 'allGather layer 2', 'stale'),
  sealedIn('NO_SHARD', 3, 'optimizer', 'skip'),
  sealedIn('FULL_SHARD', 3, 'reduceScatter layer 0', 'double'),
  sealedIn('NO_SHARD', 1, 'backward layer 3', 'skip'),
  sealedIn('FULL_SHARD', 0, 'backward layer 2', 'stale'),
  sealedIn('FULL_SHARD', 2, 'unshard layer 3', 'nan'),
  sealedIn('FULL_SHARD', 1, 'optimizer', 'double'),
  sealedIn('NO_SHARD', 2, 'allReduce', 'stale'),
  sealedIn('FULL_SHARD', 3, 'data', 'stale'),
  sealedIn('FULL_SHARD', 0, 'reduceScatter layer 3', 'nan'),
  sealedIn('NO_SHARD', 2, 'optimizer', 'double'),
];

/** Each mystery is planted in a training on this number of ranks. */
const WORLD = 4;

/** An answer to a mystery. */
export interface Solution {
  readonly isRight: boolean;
  /** What is right and what is not, without the answer. */
  readonly text: string;
  [inspect.custom](): string;
}

/** What an answer gets, with holes for values. */
const SENTENCES = {
  none: {
    en: 'no guess yet: replace NaN by a rank, and the other values by your guess',
    zh: '还没有猜：把 NaN 换成一个 rank，其他的值也换成你的猜测',
  },
  right: { en: 'right: {0}', zh: '正确：{0}' },
  wrong: { en: 'not right: {0}', zh: '还不对：{0}' },
  partly: { en: 'not right: {0}; right: {1}', zh: '还不对：{0}；已经对了：{1}' },
  comma: { en: ', ', zh: '、' },
  and: { en: ' and ', zh: '、' },
  rank: { en: 'the rank', zh: 'rank' },
  point: { en: 'the point', zh: '点（at）' },
  kind: { en: 'what it does', zh: '做法（do）' },
} as const satisfies Record<string, Text>;

/** A fault whose rank, point and kind are sealed. `sl.mystery(n)` makes one. */
export class Mystery {
  /** 1 to 12. */
  readonly number: number;
  /** The strategy under which the mystery can be planted, with 4 ranks and the model 'tiny'. */
  readonly strategy: StrategyName;

  readonly #onReveal: () => void;
  readonly #language: Language;

  constructor(number: number, onReveal: () => void = () => {}, language: Language = 'en') {
    this.number = number;
    this.strategy = caseOf(this).strategy;
    this.#onReveal = onReveal;
    this.#language = language;
  }

  /** Judges an answer: rank, point and kind of the fault. A rank of NaN is no answer yet. Throws: CONFIG if there is no such rank, point or kind. */
  solve(answers: Pick<Fault, 'rank' | 'at' | 'do'>): Solution {
    // JavaScript allows any argument.
    const { rank, at, do: kind } = (answers ?? {}) as Partial<typeof answers>;
    if (typeof at !== 'string' || rank === undefined)
      throw new ConfigError(
        "mystery.solve takes what you found, as { rank: 2, at: 'reduceScatter layer 3', do: 'skip' }",
      );
    requireRank(rank);
    requireKind(kind);
    const { fault } = caseOf(this);
    const [answer, sealed] = [parsePointText(at), parsePointText(fault.at)];
    const parts = [
      { word: SENTENCES.rank, isRight: rank === fault.rank },
      { word: SENTENCES.point, isRight: isSamePoint(answer, sealed) },
      { word: SENTENCES.kind, isRight: kind === fault.do },
    ];
    const say = (text: Text, values: readonly string[] = []): string =>
      languages.inLanguage(text, this.#language, values);
    const right = parts.filter((part) => part.isRight).map(({ word }) => say(word));
    const wrong = parts.filter((part) => !part.isRight).map(({ word }) => say(word));
    const isRight = wrong.length === 0;
    const listed = [wrong.join(say(SENTENCES.comma)), right.join(say(SENTENCES.and))];
    const text = Number.isNaN(rank)
      ? say(SENTENCES.none)
      : isRight
        ? say(SENTENCES.right, [describeFault(fault)])
        : say(right.length === 0 ? SENTENCES.wrong : SENTENCES.partly, listed);
    return { isRight, text, [inspect.custom]: () => text };
  }

  /** Returns the fault. If an exercise asks for this mystery, its solution counts as shown. */
  reveal(): Fault {
    this.#onReveal();
    return caseOf(this).fault;
  }

  /** Returns the text that Node shows, which does not reveal the fault. */
  [inspect.custom](): string {
    return `mystery ${this.number}: one fault of one rank, for 'tiny' on 4 ranks under ${this.strategy}; sealed`;
  }
}

/** Returns a mystery's fault, to plant it. */
export function faultOf(sealed: Mystery): Fault {
  return caseOf(sealed).fault;
}

function caseOf({ number }: Mystery): Case {
  const sealed = isWhole(number, 1) ? CASES[number - 1] : undefined;
  if (sealed === undefined)
    throw new ConfigError(`there are mysteries 1 to ${CASES.length}, not ${shown(number)}`);
  return sealed;
}

/** Throws: CONFIG unless the value is a rank of the mystery's training, or NaN, which is no answer yet. */
function requireRank(rank: unknown): void {
  if (Number.isNaN(rank) || (isWhole(rank, 0) && rank < WORLD)) return;
  throw new ConfigError(`mystery.solve: rank must be one of 0 to ${WORLD - 1}, not ${shown(rank)}`);
}

function requireKind(kind: unknown): void {
  if (FAULT_KINDS.some((known) => known === kind)) return;
  throw new ConfigError(
    `mystery.solve: do must be one of ${listed(FAULT_KINDS.map((known) => `'${known}'`))}, not ${shown(kind)}`,
  );
}

/** Whether an answer names the point, by a layer or by the layer's module. A fault in a whole step's work has no module. */
function isSamePoint(answer: PointText, sealed: PointText): boolean {
  if (nameOf(answer) !== nameOf(sealed)) return false;
  return sealed.layer === undefined || layerOf(answer) === sealed.layer;
}

function nameOf({ name }: PointText): PointText['name'] {
  return name === 'unshard' ? 'allGather' : name;
}

function layerOf({ layer, module }: PointText): number | undefined {
  if (layer !== undefined) return layer;
  const index = module?.split('.').find((part) => /^\d+$/.test(part));
  return index === undefined ? undefined : Number(index);
}
