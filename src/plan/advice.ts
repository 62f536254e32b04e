import { candidates, type SearchSpace } from './candidates';
import type { Layout } from './layout';
import type { Prediction } from './prediction';
import { parseRecommend, searchBases } from './recommend-request';

/** Where advice is tried: every combination. */
export interface AdviceGrid {
  /** Parameters; the rest of the shape is a usual one of that size. */
  readonly params: readonly number[];
  readonly gpus: readonly number[];
  readonly hardware: readonly string[];
  readonly nicGbit: readonly number[];
}

/** A grid that takes about a second; ADVICE_GRID_WHOLE takes some ten. */
export const ADVICE_GRID: AdviceGrid = {
  params: [3e9, 7e9, 13e9, 30e9, 70e9, 175e9, 405e9],
  gpus: [8, 64, 512],
  hardware: ['A100-80G', 'H100-80G'],
  nicGbit: [25, 200],
};

export const ADVICE_GRID_WHOLE: AdviceGrid = {
  params: [1e9, 3e9, 7e9, 9e9, 13e9, 30e9, 70e9, 99e9, 175e9, 405e9, 500e9],
  gpus: [8, 16, 32, 64, 128, 256, 512, 1024],
  hardware: ['A100-80G', 'H100-80G'],
  nicGbit: [25, 100, 200, 400],
};

/** One place of the grid: what is advised there against the best of all. */
export interface AdviceCase {
  readonly params: number;
  readonly layers: number;
  readonly gpus: number;
  readonly hardware: string;
  readonly nicGbit: number;
  readonly holds: boolean;
  /** Seconds of the advised over the best of the others; null where the advised does not fit. */
  readonly ratio: number | null;
  readonly advised: Layout | null;
  /** The best of all that fit. */
  readonly best: Layout;
}

/** A document's advice over the grid. */
export interface AdviceFinding {
  readonly name: AdviceName;
  readonly statement: string;
  /** Cases that the advice is about and in which something fits. */
  readonly cases: readonly AdviceCase[];
  readonly numHolds: number;
  /** 'holds in 9 of 24 cases: 4 of 8 at 8 GPUs, ...'. */
  readonly summary: string;
}

export type AdviceName = keyof typeof ADVICE;

/** Advice holds where what it advises is at most so much slower than the best. */
const LEVEL = 1.05;

interface Advice {
  readonly statement: string;
  appliesTo(base: Layout): boolean;
  isAdvised(layout: Layout): boolean;
  /** What it is compared with. Default: all layouts. */
  isOther?(layout: Layout): boolean;
  /** Default: the advised is level with the best. 'needed': all others do not fit or are slower by more than that. */
  readonly claim?: 'needed';
}

const ADVICE = {
  small: {
    statement: 'below 10B: FSDP and DDP',
    appliesTo: ({ model }) => model.params < 10e9,
    isAdvised: ({ tp, pp, cp, offload }) => tp * pp * cp === 1 && !offload.optimizer,
  },
  mid: {
    statement: '10B to 100B: Megatron with TP 2-4 and PP 2-4',
    appliesTo: ({ model }) => model.params >= 10e9 && model.params <= 100e9,
    isAdvised: ({ stack, tp, pp }) =>
      stack === 'megatron' && (tp === 2 || tp === 4) && (pp === 2 || pp === 4),
  },
  large: {
    statement: 'above 100B: CPU offload or ZeRO-3',
    appliesTo: ({ model }) => model.params > 100e9,
    isAdvised: ({ strategy, offload }) => strategy === 'FULL_SHARD' || offload.optimizer,
  },
  layers: {
    statement: 'over 60 layers: pipeline parallelism is needed, even with tensor parallelism',
    appliesTo: ({ model }) => model.layers > 60,
    isAdvised: ({ pp }) => pp > 1,
    isOther: ({ pp }) => pp === 1,
    claim: 'needed',
  },
  nvlink: {
    statement: 'tensor parallelism inside a node, on NVLink',
    appliesTo: ({ gpus, hardware }) => gpus > hardware.gpusPerNode,
    isAdvised: ({ tp, hardware }) => tp > 1 && tp <= hardware.gpusPerNode,
    isOther: ({ tp, hardware }) => tp > hardware.gpusPerNode,
  },
  accumulation: {
    statement: "accumulation matched to the pipeline's depth",
    appliesTo: () => true,
    isAdvised: ({ pp, numMicroBatches }) => pp > 1 && numMicroBatches === pp,
    isOther: ({ pp, numMicroBatches }) => pp > 1 && numMicroBatches > pp,
  },
} as const satisfies Record<string, Advice>;

const NAMES = Object.keys(ADVICE) as readonly AdviceName[]; // its own keys

/** Few but telling choices: the grid has many places. */
const COARSE: SearchSpace = { micro: [1, 4], virtualStages: [1, 2], cp: [1], pp: [1, 2, 4, 8, 16] };

/** A batch at which micro-batches can equal a pipeline's depth and be many times more, tokens. */
const BATCH_TOKENS = 2 ** 22;

/** Tries the documents' advice against the best of all layouts over a grid. */
export function testAdvice(
  predict: (layout: Layout) => Prediction,
  grid: AdviceGrid = ADVICE_GRID,
): readonly AdviceFinding[] {
  const cases = new Map<AdviceName, AdviceCase[]>(NAMES.map((name) => [name, []]));
  for (const base of basesOf(grid)) {
    const about = NAMES.filter((name) => adviceOf(name).appliesTo(base));
    const found = bestOf(base, about, predict);
    for (const name of about) {
      const verdict = caseOf(base, adviceOf(name), found, name);
      if (verdict !== undefined) cases.get(name)?.push(verdict);
    }
  }
  return NAMES.map((name) => finding(name, cases.get(name) ?? []));
}

function adviceOf(name: AdviceName): Advice {
  return ADVICE[name];
}

function* basesOf(grid: AdviceGrid): Generator<Layout> {
  for (const params of grid.params) {
    for (const hardware of grid.hardware) {
      for (const nicGbit of grid.nicGbit) {
        for (const gpus of grid.gpus) {
          const global = gpus * Math.max(1, 2 ** Math.round(Math.log2(BATCH_TOKENS / 2048 / gpus)));
          const request = parseRecommend({ model: { params }, hardware, nicGbit, gpus, batch: { global } });
          yield* searchBases(request);
        }
      }
    }
  }
}

interface Timed {
  readonly layout: Layout;
  readonly seconds: number;
}

/** The fastest that fit: of all, and of each advice's two sides. */
interface Bests {
  all?: Timed;
  readonly advised: Map<AdviceName, Timed>;
  readonly others: Map<AdviceName, Timed>;
}

function bestOf(base: Layout, about: readonly AdviceName[], predict: (layout: Layout) => Prediction): Bests {
  const bests: Bests = { advised: new Map(), others: new Map() };
  for (const layout of candidates(base, COARSE)) {
    const prediction = predict(layout);
    if (!prediction.fits) continue;
    const timed = { layout, seconds: prediction.seconds.value };
    if (bests.all === undefined || timed.seconds < bests.all.seconds) bests.all = timed;
    for (const name of about) {
      const { isAdvised, isOther } = adviceOf(name);
      if (isAdvised(layout)) keep(bests.advised, name, timed);
      else if (isOther === undefined || isOther(layout)) keep(bests.others, name, timed);
    }
  }
  return bests;
}

function keep(bests: Map<AdviceName, Timed>, name: AdviceName, timed: Timed): void {
  const before = bests.get(name);
  if (before === undefined || timed.seconds < before.seconds) bests.set(name, timed);
}

/** Undefined where nothing fits, or neither side of the advice. */
function caseOf(base: Layout, advice: Advice, bests: Bests, name: AdviceName): AdviceCase | undefined {
  const [advised, other] = [bests.advised.get(name), bests.others.get(name)];
  if (bests.all === undefined || (advised === undefined && other === undefined)) return undefined;
  const ratio = advised === undefined ? null : other === undefined ? 1 : advised.seconds / other.seconds;
  const needed = ratio !== null && (other === undefined || ratio < 1 / LEVEL);
  return {
    params: base.model.params,
    layers: base.model.layers,
    gpus: base.gpus,
    hardware: base.hardware.name,
    nicGbit: base.hardware.nicGbit,
    holds: advice.claim === 'needed' ? needed : ratio !== null && ratio <= LEVEL,
    ratio,
    advised: advised?.layout ?? null,
    best: bests.all.layout,
  };
}

function finding(name: AdviceName, cases: readonly AdviceCase[]): AdviceFinding {
  const numHolds = cases.filter(({ holds }) => holds).length;
  const { statement } = ADVICE[name];
  const summary = `holds in ${numHolds} of ${cases.length} cases${numHolds % cases.length === 0 ? '' : `: ${telling(cases)}`}`;
  return { name, statement, cases, numHolds, summary };
}

/** The side of the grid that tells best where it holds: whose shares differ most. */
function telling(cases: readonly AdviceCase[]): string {
  const sides = [
    sharesBy(
      cases,
      ({ gpus }) => gpus,
      (value) => `${value} GPUs`,
    ),
    sharesBy(
      cases,
      ({ params }) => params,
      (value) => `${value / 1e9}B`,
    ),
    sharesBy(
      cases,
      ({ nicGbit }) => nicGbit,
      (value) => `${value} Gbit/s`,
    ),
    sharesBy(cases, ({ hardware }) => hardware, String),
  ];
  const [best] = sides.sort((a, b) => b.spread - a.spread);
  return best?.text ?? '';
}

function sharesBy<Value extends string | number>(
  cases: readonly AdviceCase[],
  of: (one: AdviceCase) => Value,
  word: (value: Value) => string,
): { readonly text: string; readonly spread: number } {
  const values = [...new Set(cases.map(of))];
  const shares = values.map((value) => {
    const here = cases.filter((one) => of(one) === value);
    const holds = here.filter((one) => one.holds).length;
    return { share: holds / here.length, text: `${holds} of ${here.length} at ${word(value)}` };
  });
  const all = shares.map(({ share }) => share);
  return { text: shares.map(({ text }) => text).join(', '), spread: Math.max(...all) - Math.min(...all) };
}
