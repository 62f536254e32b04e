import type { Stack } from '../config';
import { CALIBRATION } from './calibration';
import type { Layout } from './layout';
import { fitsOnGpu } from './memory/allocator';
import { traitsOf } from './model-shape';
import {
  type ComputeCause,
  type Estimate,
  type MemoryPrediction,
  peakInBytes,
  type TimePrediction,
} from './prediction';
import { STACK_RULES, shardedStates } from './stack-rules';

/** The time of one cause in an iteration, its relative error, and the assumption behind it. */
interface Doubt {
  readonly seconds: number;
  readonly relative: number;
  readonly assumption: string;
}

type CauseDoubt = readonly [relative: number, assumption: string];

/** Relative errors of the causes of compute: standard deviations between calibration rows and the model. */
export const COMPUTE_DOUBT: Readonly<Record<ComputeCause, CauseDoubt>> = {
  products: [
    0.07,
    `matmuls reach ${CALIBRATION.gemmEfficiency.toFixed(2)} of the GPU's best matmul rate (less if the inner size is small or a wave is partly filled)`,
  ],
  attention: [0.15, 'the attention kernel reaches its published rate'],
  elementwise: [
    0.25,
    `element-wise kernels read and write as in the framework's code, at ${CALIBRATION.memoryEfficiency} of the memory bandwidth`,
  ],
  loss: [0.3, "the loss moves as many bytes per logit as the framework's code says"],
  optimizer: [0.25, "the optimizer moves as many bytes per parameter as the framework's code says"],
  launch: [0.3, `the CPU launches a kernel in ${Math.round(CALIBRATION.launchSeconds * 1e6)} µs`],
};

/** Relative error of collectives between nodes. */
export const NETWORK_SPREAD = 0.35;

/**
 * Relative error that no cause explains, by framework: chosen so that intervals contain 80% of the framework's published runs (the
 * table by framework in docs/explanation/planner.md).
 */
const UNEXPLAINED: Readonly<Record<Stack, number>> = { megatron: 0.05, fsdp2: 0.05, deepspeed: 0.12 };

/** Relative error of ZeRO-3 between nodes, chosen so that intervals contain 8 of its 10 published runs. */
const ZERO_3_BETWEEN_NODES = 0.45;

/** Number of standard deviations that contain 80% of a normal distribution, two-sided. */
export const SPREADS = 1.28;

/** Returns an interval that contains eight of ten runs if the errors are right, and the assumption that widens it most. */
export function secondsEstimate(
  layout: Layout,
  time: TimePrediction,
  memory: MemoryPrediction,
): { readonly seconds: Estimate; readonly largestAssumption: string; readonly outside: readonly string[] } {
  const outside = [...outsideOf(layout), ...pressureOf(layout, memory)];
  const doubts = doubtsOf(layout, time);
  const variance = doubts.reduce((sum, { seconds, relative }) => sum + (seconds * relative) ** 2, 0);
  const widened = 1 + outside.length / 4;
  const spread =
    SPREADS * widened * Math.hypot(Math.sqrt(variance), UNEXPLAINED[layout.stack] * time.seconds);
  const most = doubts.reduce((a, b) => (b.seconds * b.relative > a.seconds * a.relative ? b : a));
  return {
    seconds: {
      value: time.seconds,
      low: time.seconds ** 2 / (time.seconds + spread),
      high: time.seconds + spread,
    },
    largestAssumption:
      layout.model.kind === 'unknown'
        ? 'a model with this number of parameters has the usual shape'
        : most.assumption,
    outside,
  };
}

function doubtsOf(layout: Layout, { seconds, computeByCause, exposedComm, bubble }: TimePrediction): Doubt[] {
  const compute = Object.entries(COMPUTE_DOUBT).map(([cause, [relative, assumption]]): Doubt => {
    // Keys of COMPUTE_DOUBT are the causes.
    return { seconds: computeByCause[cause as ComputeCause], relative, assumption };
  });
  const nodes = layout.gpus > layout.hardware.gpusPerNode;
  return [
    ...compute,
    {
      seconds: exposedComm,
      relative: nodes ? NETWORK_SPREAD : 0.2,
      assumption: nodes
        ? `collectives between nodes reach ${CALIBRATION.nicEfficiency} of the network cards' bandwidth, and overlap with compute as the schedule allows`
        : `collectives within a node reach ${CALIBRATION.linkEfficiency} of the links' bandwidth`,
    },
    {
      seconds:
        nodes && layout.stack === 'deepspeed' && shardedStates(layout).includes('parameter') ? seconds : 0,
      relative: ZERO_3_BETWEEN_NODES,
      assumption:
        "ZeRO-3 between nodes is as fast as in DeepSpeed's release 0.6; earlier releases took up to 2.3 times as long",
    },
    {
      seconds: bubble,
      relative: 0.1,
      assumption: 'stages wait for each other only as the schedule says',
    },
  ];
}

/** Warns of a full cache; the time to empty it is not counted. Source: c10's CUDACachingAllocator, on a failed cudaMalloc. */
function pressureOf(layout: Layout, memory: MemoryPrediction): string[] {
  const isNear = fitsOnGpu(layout, memory.peakBytes) && !fitsOnGpu(layout, peakInBytes(memory).high);
  return isNear
    ? ['the peak may fill the memory: the allocator then frees blocks and allocates again, which takes time']
    : [];
}

/** Returns how the layout differs from the runs of the fit: A100 (rates also on H100), 16 bits, Megatron-LM's GPTs and FSDP's GPTs and Llamas. */
function outsideOf(layout: Layout): string[] {
  const { hardware, model, attention, stack, cp, offload, precision, compile } = layout;
  const far: readonly (readonly [boolean, string])[] = [
    [hardware.generation !== 'ampere', `${hardware.name}: most constants were fitted on A100`],
    [
      stack === 'deepspeed',
      'deepspeed: its published runs took 0.9 to 1.3 times as long as predicted, and those before release 0.6 took 1.3 to 2.3 times as long',
    ],
    [
      attention !== 'unfused' && attention !== 'flash1',
      `attention '${attention}': its rate is published, and was not fitted`,
    ],
    [!traitsOf(model).isPlain, `kind '${model.kind}': the constants were fitted on GPTs and Llamas`],
    [cp > 1, 'context parallelism: its cost is calculated, and was not fitted'],
    [precision === 'fp32', 'fp32: its rate is from the data sheet, and was not fitted'],
    [precision === 'fp8', 'fp8: its rate relative to 16 bits is published, and was not fitted'],
    [
      hardware.generation === 'volta' && precision === 'bf16',
      `${hardware.name} has no bf16: the plan uses the rate of fp16`,
    ],
    [compile, 'torch.compile: its effect is calculated from the fused operations, and was not fitted'],
    [
      offload.optimizer || offload.parameters,
      "offload: its rate is from the link's data sheet, and was not fitted",
    ],
  ];
  return [...far.filter(([holds]) => holds).map(([, text]) => text), ...unheardOf(layout)];
}

const CP_WORDS = { ulysses: 'Ulysses (parallel.cpKind)', ring: 'ring attention (parallel.cpKind)' } as const;

/** Returns the parts of a layout that its framework cannot run; the layout is planned anyway. */
function unheardOf({ stack, strategy, tp, pp, cp, cpKind, overlapExperts, cudaGraph }: Layout): string[] {
  const rules = STACK_RULES[stack];
  const lacks: readonly (readonly [boolean, string])[] = [
    [!rules.strategies.includes(strategy), strategy],
    [tp > 1 && !rules.tensorParallel, 'tensor parallelism'],
    [pp > 1 && !rules.pipelineWith.includes(strategy), `a pipeline under ${strategy}`],
    [cp > 1 && !rules.contextParallel.includes(cpKind), CP_WORDS[cpKind]],
    [
      overlapExperts && !rules.graphsAndOverlap,
      "an exchange of experts' tokens beside another microbatch's compute",
    ],
    [cudaGraph !== 'none' && !rules.graphsAndOverlap, `CUDA graphs (cudaGraph '${cudaGraph}')`],
  ];
  return lacks.filter(([holds]) => holds).map(([, feature]) => `${stack} itself lacks ${feature}`);
}
