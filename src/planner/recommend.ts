import { ConfigError, isWhole } from '../core';
import { candidates } from './candidates';
import { type Planned, tokensPerStep, usdPerMillionTokens } from './cost-of';
import { familyOf, type Loss, lossOf, type Measure } from './families';
import type { Layout } from './layout';
import { type Prediction, peakInBytes } from './prediction';
import { PRICES, type PriceTable } from './prices';
import { type RecommendRequest, searchBases } from './recommend-request';

/** The result of a search: the best layouts, and why the best layout of each other family is worse. */
export interface Recommendation {
  readonly request: RecommendRequest;
  readonly numCandidates: number;
  readonly numFitting: number;
  /** The layouts that fit, best first, in the order of the time, memory or cost that nine in ten runs stay below; at most `top`. */
  readonly ranked: readonly Planned[];
  /** The best layout on the fewest GPUs on which a layout fits; undefined: no layout fits. */
  readonly fewest: Planned | undefined;
  /** The best layout of every family except the winner's family, best first; layouts that do not fit are last. */
  readonly losses: readonly Loss[];
  /** Why some degrees were not tried at all. */
  readonly notTried: readonly string[];
  /** The measure of the order: seconds of an iteration, bytes at the peak, or USD per million tokens. */
  readonly measure: Measure;
}

export interface RecommendOptions {
  readonly predict: (layout: Layout) => Prediction;
  /** Prices of GPUs. Default: list prices. */
  readonly prices?: PriceTable;
  /** How many of the best layouts are returned. Default 10. */
  readonly top?: number;
  /** Receives the number of layouts that are predicted, and the number of all layouts. */
  readonly progress?: (done: number, total: number) => void;
}

/**
 * Finds the best layouts of a model on some hardware. Throws: CONFIG if no layout is legal, and if no
 * price is known for a search by cost.
 */
export function recommend(request: RecommendRequest, options: RecommendOptions): Recommendation {
  const { top = 10, prices = PRICES, progress } = options;
  if (!isWhole(top, 1)) throw new ConfigError(`recommend: top is ${top}; give an integer of at least 1`);
  const bases = searchBases(request);
  const measure = MEASURES[request.by](prices);
  const families = new Map<string, Family>();
  const best: Ranked[] = [];
  let fewest: Ranked | undefined;
  const layouts = bases.flatMap((base) => [...candidates(base, request.search)]);
  for (const [i, layout] of layouts.entries()) {
    const planned = { layout, prediction: options.predict(layout) };
    const ranked = { planned, value: measure.of(planned).high, usable: isUsable(planned, request) };
    enter(families, familyOf(layout), ranked);
    if (ranked.usable) {
      keepBest(best, ranked, top);
      fewest = onFewer(fewest, ranked);
    }
    progress?.(i + 1, layouts.length);
  }
  const all = [...families.values()];
  if (all.length === 0) throw noLayout(bases[0], request);
  return {
    request,
    numCandidates: layouts.length,
    numFitting: all.reduce((sum, { fitting }) => sum + fitting, 0),
    ranked: best.map(({ planned }) => planned),
    fewest: fewest?.planned,
    losses: lossesOf(families, best[0], measure),
    notTried: bases.slice(0, 1).flatMap((base) => untriedDegrees(base)),
    measure,
  };
}

interface Ranked {
  readonly planned: Planned;
  /** The end of the interval: of two layouts with equal predictions, the one that is better known comes first. */
  readonly value: number;
  readonly usable: boolean;
}

interface Family {
  tried: number;
  fitting: number;
  best: Ranked;
}

const MEASURES: Readonly<Record<RecommendRequest['by'], (prices: PriceTable) => Measure>> = {
  time: () => ({ worse: 'slower', of: ({ prediction }) => prediction.seconds }),
  memory: () => ({ worse: 'the memory', of: ({ prediction }) => peakInBytes(prediction.memory) }),
  cost: (prices) => ({
    worse: 'the cost',
    of: (planned) => {
      const usd = usdPerMillionTokens(planned, prices);
      if (usd !== undefined) return usd;
      const { name } = planned.layout.hardware;
      throw new ConfigError(
        `the ranking by cost needs a price for ${name}; give prices: { '${name}': USD per GPU hour }`,
      );
    },
  }),
};

/** Whether the layout fits and, if the request has a time limit, is fast enough. */
function isUsable({ layout, prediction }: Planned, { within }: RecommendRequest): boolean {
  if (!prediction.fits) return false;
  if (within === undefined) return true;
  return (within.tokens / tokensPerStep(layout)) * prediction.seconds.value <= within.hours * 3600;
}

function enter(families: Map<string, Family>, name: string, ranked: Ranked): void {
  const family = families.get(name) ?? { tried: 0, fitting: 0, best: ranked };
  families.set(name, family);
  family.tried += 1;
  if (ranked.usable) family.fitting += 1;
  if (isBetter(ranked, family.best)) family.best = ranked;
}

/**
 * Whether `a` is better than `b`: a usable layout is better than one that is not. Of two layouts that do not fit, the layout that
 * needs less memory is better; in all other cases, the layout with the smaller `value`.
 */
function isBetter(a: Ranked, b: Ranked): boolean {
  if (a.usable !== b.usable) return a.usable;
  if (a.usable || a.planned.prediction.fits !== b.planned.prediction.fits) return a.value < b.value;
  return a.planned.prediction.memory.peakBytes < b.planned.prediction.memory.peakBytes;
}

/** Returns the layout on fewer GPUs; if both are on equally many GPUs, the better layout. */
function onFewer(before: Ranked | undefined, ranked: Ranked): Ranked {
  if (before === undefined) return ranked;
  const fewer = before.planned.layout.gpus - ranked.planned.layout.gpus;
  return fewer > 0 || (fewer === 0 && ranked.value < before.value) ? ranked : before;
}

function keepBest(best: Ranked[], ranked: Ranked, top: number): void {
  const last = best.at(-1);
  if (best.length >= top && last !== undefined && ranked.value >= last.value) return;
  const at = best.findIndex(({ value }) => ranked.value < value);
  best.splice(at < 0 ? best.length : at, 0, ranked);
  if (best.length > top) best.pop();
}

function lossesOf(
  families: ReadonlyMap<string, Family>,
  winner: Ranked | undefined,
  measure: Measure,
): readonly Loss[] {
  const winning = winner && familyOf(winner.planned.layout);
  return [...families]
    .filter(([name]) => name !== winning)
    .sort(([, a], [, b]) => (isBetter(a.best, b.best) ? -1 : 1))
    .map(([family, { best, tried, fitting }]) =>
      lossOf({ family, best: best.planned, tried, fitting }, winner?.planned, measure),
    );
}

function untriedDegrees({ model, hardware }: Layout): string[] {
  const { heads, kvHeads } = model;
  const cut = [2, 4, 8].filter((tp) => tp <= hardware.gpusPerNode && heads % tp !== 0);
  if (cut.length === 0) return [];
  return [`tp ${cut.join(', ')}: does not divide ${heads} heads (${kvHeads} of keys and values)`];
}

function noLayout(base: Layout | undefined, request: RecommendRequest): ConfigError {
  const { heads = 0, layers = 0, seq = 0 } = base?.model ?? {};
  return new ConfigError(
    `no layout of ${base?.model.name ?? 'the model'} (${layers} layers, ${heads} heads, ${seq} tokens) on ${request.gpus} GPUs ` +
      `with a global batch of ${base?.globalBatch} is possible: dp must divide the batch, and dp x tp x pp x cp must be the number of GPUs; ` +
      `try globalBatch: ${request.gpus * Math.ceil((base?.globalBatch ?? 1) / request.gpus)}, or widen search`,
  );
}
