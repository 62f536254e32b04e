import { candidates, type SearchSpace } from './candidates';
import type { Layout } from './layout';
import type { ModelShapeInput } from './model-shape';
import type { Prediction } from './prediction';
import { recommendRequest, searchBases } from './recommend-request';

/** Advice is tested on every combination of these values. */
export interface AdviceGrid {
  readonly models: readonly ModelShapeInput[];
  readonly gpus: readonly number[];
  readonly hardware: readonly string[];
  readonly nicGbit: readonly number[];
}

/** GPTs whose numbers of layers and heads are divisible by many degrees. Source: Narayanan et al. 2021, Table 1. */
const GPTS = [
  gpt('1.7B', 24, 2304, 24),
  gpt('3.6B', 30, 3072, 32),
  gpt('7.5B', 36, 4096, 32),
  gpt('18.4B', 40, 6144, 48),
  gpt('39.1B', 48, 8192, 64),
  gpt('76.1B', 60, 10_240, 80),
  gpt('145.6B', 80, 12_288, 96),
  gpt('310.1B', 96, 16_384, 128),
];

/** The default grid, which is tested within seconds. */
export const ADVICE_GRID: AdviceGrid = {
  models: GPTS,
  gpus: [8, 64, 512],
  hardware: ['A100-80G', 'H100-80G'],
  nicGbit: [25, 200],
};

/** One point of the grid: the advised layout, compared with the best layout. */
export interface AdviceCase {
  readonly model: string;
  readonly params: number;
  readonly layers: number;
  readonly gpus: number;
  readonly hardware: string;
  readonly nicGbit: number;
  readonly holds: boolean;
  /** Time of the best advised layout divided by the time of the best other layout; null: no advised layout fits. */
  readonly ratio: number | null;
  readonly advised: Layout | null;
  /** The fastest layout that fits. */
  readonly best: Layout;
}

/** The result of testing a document's advice on the grid. */
export interface AdviceFinding {
  readonly name: AdviceName;
  readonly statement: string;
  /** The cases to which the advice applies and in which some layout fits. */
  readonly cases: readonly AdviceCase[];
  readonly numHolds: number;
  /** The result as text, such as 'holds in 9 of 24 cases: 4 of 8 at 8 GPUs, ...'. */
  readonly summary: string;
}

export type AdviceName = keyof typeof ADVICE;

/** Advice holds if the advised layout takes at most this many times as long as the best layout. */
const LEVEL = 1.05;

interface Advice {
  readonly statement: string;
  appliesTo(base: Layout): boolean;
  isAdvised(layout: Layout): boolean;
  /** Returns whether advised layouts are compared with `layout`. Default: they are compared with all layouts. */
  isOther?(layout: Layout): boolean;
  /** Returns the layouts whose times per sample are compared. Default: the best advised layout and the best other layout. */
  pair?(advised: Layout): { readonly advised: Layout; readonly alternative: Layout };
  /**
   * What the advice claims. Default: the advised layout takes at most LEVEL times as long as the best layout. 'needed':
   * every other layout that fits takes more than LEVEL times as long as the advised layout.
   */
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
    isAdvised: ({ strategy, offload, tp, pp, cp }) =>
      tp * pp * cp === 1 && (strategy === 'FULL_SHARD' || offload.optimizer),
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
    statement: "accumulation matched to the pipeline's depth: several microbatches per stage",
    appliesTo: () => true,
    isAdvised: ({ pp }) => pp > 1,
    isOther: () => false,
    // Compares a pipeline with eight microbatches per stage with the same pipeline with one microbatch per stage.
    pair: (layout) => ({ advised: accumulating(layout, 8), alternative: accumulating(layout, 1) }),
  },
} as const satisfies Record<string, Advice>;

const NAMES = Object.keys(ADVICE) as readonly AdviceName[]; // the keys of ADVICE

/** The documents' models train in bf16 with FlashAttention; gradients are reduced as each framework does by default. */
const TRAINING = { mixedPrecision: 'bf16', attention: 'flash' } as const;

/** The search tries only these few values at each point, because the grid has many points. */
const COARSE: SearchSpace = { micro: [1, 4], virtualStages: [1, 2], cp: [1], pp: [1, 2, 4, 8, 16] };

/** Returns the layout with `perStage` microbatches per pipeline stage. */
function accumulating(layout: Layout, perStage: number): Layout {
  const numMicroBatches = perStage * layout.pp;
  return { ...layout, numMicroBatches, globalBatch: numMicroBatches * layout.microBatch * layout.dp };
}

function gpt(name: string, layers: number, dim: number, heads: number): ModelShapeInput {
  return { name: `GPT ${name}`, kind: 'gpt', layers, dim, heads, vocab: 51_200, seq: 2048 };
}

/** Compares the documents' advice with the best layouts on a grid. */
export function testAdvice(
  predict: (layout: Layout) => Prediction,
  grid: AdviceGrid = ADVICE_GRID,
): readonly AdviceFinding[] {
  const cases = new Map<AdviceName, AdviceCase[]>(NAMES.map((name) => [name, []]));
  for (const base of basesOf(grid)) {
    const about = NAMES.filter((name) => adviceOf(name).appliesTo(base));
    const { all, sides } = bestOf(base, about, predict);
    for (const name of about) {
      const advice = adviceOf(name);
      const verdict = caseOf(base, advice, paired(advice, sides.get(name) ?? {}, predict), all);
      if (verdict !== undefined) cases.get(name)?.push(verdict);
    }
  }
  return NAMES.map((name) => finding(name, cases.get(name) ?? []));
}

function adviceOf(name: AdviceName): Advice {
  return ADVICE[name];
}

function* basesOf(grid: AdviceGrid): Generator<Layout> {
  for (const model of grid.models) {
    for (const hardware of grid.hardware) {
      for (const nicGbit of grid.nicGbit) {
        for (const gpus of grid.gpus) {
          const request = recommendRequest({ ...TRAINING, model, hardware, nicGbit, gpus });
          yield* searchBases({ ...request, hasTypes: false });
        }
      }
    }
  }
}

interface Timed {
  readonly layout: Layout;
  readonly seconds: number;
}

/** The fastest fitting layout among the advised layouts, and among the other layouts. */
interface Sides {
  advised?: Timed;
  alternative?: Timed;
}

/** Finds the fastest layout that fits and, for each advice, the fastest advised layout and the fastest other layout that fit. */
function bestOf(base: Layout, about: readonly AdviceName[], predict: (layout: Layout) => Prediction) {
  const sides = new Map<AdviceName, Sides>(about.map((name) => [name, {}]));
  let all: Timed | undefined;
  for (const layout of candidates(base, COARSE)) {
    const prediction = predict(layout);
    if (!prediction.fits) continue;
    const timed = { layout, seconds: prediction.seconds.value };
    all = faster(all, timed);
    for (const [name, side] of sides) {
      const { isAdvised, isOther } = adviceOf(name);
      if (isAdvised(layout)) side.advised = faster(side.advised, timed);
      else if (isOther === undefined || isOther(layout)) side.alternative = faster(side.alternative, timed);
    }
  }
  return { all, sides };
}

function faster(before: Timed | undefined, timed: Timed): Timed {
  return before === undefined || timed.seconds < before.seconds ? timed : before;
}

function paired({ pair }: Advice, sides: Sides, predict: (layout: Layout) => Prediction): Sides {
  if (pair === undefined || sides.advised === undefined) return sides;
  const timed = (layout: Layout): Timed => ({
    layout,
    seconds: predict(layout).seconds.value / layout.globalBatch,
  });
  const { advised, alternative } = pair(sides.advised.layout);
  return { advised: timed(advised), alternative: timed(alternative) };
}

/** Returns undefined if no layout fits, if no layout of the two sides fits, or if there is nothing to compare with. */
function caseOf(
  { model, gpus, hardware }: Layout,
  { claim, isOther }: Advice,
  { advised, alternative }: Sides,
  best: Timed | undefined,
): AdviceCase | undefined {
  if (best === undefined || (advised === undefined && alternative === undefined)) return undefined;
  // No other layout exists: for example, the number of heads forbids TP across nodes.
  if (alternative === undefined && isOther !== undefined && claim !== 'needed') return undefined;
  const ratio =
    advised === undefined ? null : alternative === undefined ? 1 : advised.seconds / alternative.seconds;
  const needed = ratio !== null && (alternative === undefined || ratio < 1 / LEVEL);
  return {
    model: model.name,
    params: model.params,
    layers: model.layers,
    gpus,
    hardware: hardware.name,
    nicGbit: hardware.nicGbit,
    holds: claim === 'needed' ? needed : ratio !== null && ratio <= LEVEL,
    ratio,
    advised: advised?.layout ?? null,
    best: best.layout,
  };
}

function finding(name: AdviceName, cases: readonly AdviceCase[]): AdviceFinding {
  const numHolds = cases.filter(({ holds }) => holds).length;
  const { statement } = ADVICE[name];
  const summary = `holds in ${numHolds} of ${cases.length} cases${numHolds % cases.length === 0 ? '' : `: ${telling(cases)}`}`;
  return { name, statement, cases, numHolds, summary };
}

/** Lists the shares of cases in which the advice holds, along the axis of the grid on which these shares differ most. */
function telling(cases: readonly AdviceCase[]): string {
  const sides = [
    sharesBy(cases, 'gpus', ' GPUs'),
    sharesBy(cases, 'model', ''),
    sharesBy(cases, 'nicGbit', ' Gbit/s'),
    sharesBy(cases, 'hardware', ''),
  ];
  const [best] = sides.sort((a, b) => b.spread - a.spread);
  return best?.text ?? '';
}

function sharesBy(
  cases: readonly AdviceCase[],
  side: 'gpus' | 'model' | 'nicGbit' | 'hardware',
  unit: string,
) {
  const shares = [...new Set(cases.map((each) => each[side]))].map((value) => {
    const here = cases.filter((each) => each[side] === value);
    const numHolds = here.filter(({ holds }) => holds).length;
    return { share: numHolds / here.length, text: `${numHolds} of ${here.length} at ${value}${unit}` };
  });
  const all = shares.map(({ share }) => share);
  return { text: shares.map(({ text }) => text).join(', '), spread: Math.max(...all) - Math.min(...all) };
}
