import type { Layout } from './layout';
import { fitsOnGpu } from './memory/allocator';
import type { ComputeCause, Estimate, MemoryPrediction, TimePrediction } from './prediction';
import { STACK_RULES } from './stack-rules';

/** One cause's share of an iteration, how wrong it may be, and what it rests on. */
interface Doubt {
  readonly seconds: number;
  readonly relative: number;
  readonly assumption: string;
}

/** Relative doubt of causes of compute: how far parts of the calibration rows lie from the model (standard deviation). */
const COMPUTE_DOUBT: Readonly<Record<ComputeCause, readonly [relative: number, assumption: string]>> = {
  products: [
    0.07,
    "matrix products reach 0.95 of the GPU's GEMM roof, less for small inner sizes and part waves",
  ],
  attention: [0.15, 'the attention kernel reaches the rate that its paper states'],
  elementwise: [
    0.25,
    "element-wise kernels move what the stack's code reads and writes at 0.88 of the memory bandwidth",
  ],
  loss: [0.3, 'bytes that the loss moves for each logit'],
  optimizer: [0.25, 'bytes that the optimizer moves for each parameter'],
  launch: [0.3, 'the host launches a kernel in 30 µs'],
};

/** What no cause explains: rows of one shape differ by so much. Source: fit half of vtrain-single-node-a100.json. */
const UNEXPLAINED = 0.1;

/** Two-sided 90% of a normal distribution. */
const SPREADS = 1.64;

/** An interval that holds nine of ten runs if the doubts are right, and the assumption that widens it most. */
export function secondsEstimate(
  layout: Layout,
  time: TimePrediction,
  memory: MemoryPrediction,
): { readonly seconds: Estimate; readonly largestAssumption: string; readonly outside: readonly string[] } {
  const outside = [...outsideOf(layout), ...pressureOf(layout, memory)];
  const doubts = doubtsOf(layout, time);
  const variance = doubts.reduce((sum, { seconds, relative }) => sum + (seconds * relative) ** 2, 0);
  const widened = 1 + outside.length / 4;
  const spread = SPREADS * widened * Math.hypot(Math.sqrt(variance), UNEXPLAINED * time.seconds);
  const most = doubts.reduce((a, b) => (b.seconds * b.relative > a.seconds * a.relative ? b : a));
  return {
    seconds: {
      value: time.seconds,
      low: time.seconds ** 2 / (time.seconds + spread),
      high: time.seconds + spread,
    },
    largestAssumption:
      layout.model.kind === 'unknown' ? 'a model of so many parameters has the usual shape' : most.assumption,
    outside,
  };
}

function doubtsOf(layout: Layout, { computeByCause, exposedComm, bubble }: TimePrediction): Doubt[] {
  const compute = Object.entries(COMPUTE_DOUBT).map(([cause, [relative, assumption]]): Doubt => {
    // Keys of COMPUTE_DOUBT are the causes.
    return { seconds: computeByCause[cause as ComputeCause], relative, assumption };
  });
  const nodes = layout.gpus > layout.hardware.gpusPerNode;
  return [
    ...compute,
    {
      seconds: exposedComm,
      relative: nodes ? 0.35 : 0.2,
      assumption: nodes
        ? 'collectives between nodes reach 0.85 of the network cards, and run beside compute as the schedule allows'
        : 'collectives inside a node reach 0.7 of the links',
    },
    {
      seconds: bubble,
      relative: 0.1,
      assumption: 'stages wait for each other as the schedule says, and no longer',
    },
  ];
}

/** A cache that is full is emptied and filled again, which no cause here counts. Source: c10's CUDACachingAllocator, on a failed cudaMalloc. */
function pressureOf(layout: Layout, { peak, peakBytes }: MemoryPrediction): string[] {
  const isNear = fitsOnGpu(layout, peakBytes) && !fitsOnGpu(layout, peak.high * 1024 ** 3);
  return isNear
    ? ['the peak may fill the memory: the allocator then frees and asks again, which takes time']
    : [];
}

/** Where the layout lies beyond what the constants were fitted on: A100, fp16 GPTs, unfused attention, Megatron-LM. */
function outsideOf(layout: Layout): string[] {
  const { hardware, model, attention, stack, cp, offload, precision, compile } = layout;
  const far: readonly (readonly [boolean, string])[] = [
    [hardware.generation !== 'ampere', `${hardware.name}: the constants were fitted on A100`],
    [stack !== 'megatron', `${stack}: the constants were fitted on Megatron-LM`],
    [attention !== 'unfused', `attention '${attention}': by its paper, not fitted`],
    [model.kind !== 'gpt', `kind '${model.kind}': the constants were fitted on GPTs`],
    [cp > 1, 'context parallelism: by arithmetic, not fitted'],
    [precision === 'fp32' || precision === 'fp8', `${precision}: by the data sheet's rate, not fitted`],
    [
      hardware.generation === 'volta' && precision === 'bf16',
      `${hardware.name} has no bf16: planned at fp16's rate`,
    ],
    [compile, 'torch.compile: by what it fuses, not fitted'],
    [offload.optimizer || offload.parameters, "offload: by the link's data sheet, not fitted"],
  ];
  return [...far.filter(([holds]) => holds).map(([, text]) => text), ...unheardOf(layout)];
}

/** What the layout's framework cannot run, and is planned all the same. */
function unheardOf({ stack, strategy, tp, pp, cp }: Layout): string[] {
  const rules = STACK_RULES[stack];
  const lacks: readonly (readonly [boolean, string])[] = [
    [!rules.strategies.includes(strategy), strategy],
    [tp > 1 && !rules.tensorParallel, 'tensor parallelism'],
    [pp > 1 && !rules.pipelineWith.includes(strategy), `a pipeline under ${strategy}`],
    [cp > 1 && !rules.contextParallel, 'context parallelism'],
  ];
  return lacks.filter(([holds]) => holds).map(([, what]) => `${stack} has no ${what} of its own`);
}
