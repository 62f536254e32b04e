import { type Bytes, formatBytes, sumOf } from '../../core';
import type { BytesByCause } from '../../ledger';
import type { Planned } from '../cost-of';
import { workspaceBytes } from '../memory/allocator';
import { tokenSizesOf } from '../memory/layer-activations';
import { lossBytesOf } from '../memory/outer-activations';
import { stageOf } from '../memory/pipeline-stage';
import { stateBytesOf } from '../memory/state-bytes';
import { wholeUnits } from '../memory/whole-units';
import { shardedStates } from '../stack-rules';
import type { DryRun, DryRunPeak } from './dry-run-result';

/** The counted and the predicted bytes of one cause, each at its own peak, and the reasons of their difference. */
export interface BytesBeside {
  readonly cause: 'parameters' | 'gradients' | 'optimizer' | 'activations' | 'temporary' | 'peak';
  /** The bytes that this library's engine holds. */
  readonly held: Bytes;
  /** The same values in the types in which a GPU would store them. */
  readonly declared: Bytes;
  /** The bytes that the plan predicts for a program on GPUs. */
  readonly predicted: Bytes;
  /** Why `declared` and `predicted` differ; '' if they are equal. */
  readonly why: string;
}

/** Returns the bytes of a dry run beside those of the prediction for the same config and place, cause by cause. */
export function besidePrediction({ peak }: DryRun, planned: Planned): readonly BytesBeside[] {
  const { memory } = planned.prediction;
  const parts = partsOf(planned);
  const row = (
    cause: keyof typeof CAUSES,
    predicted: Bytes,
    why: (parts: Parts, peak: DryRunPeak) => readonly string[],
  ): BytesBeside => {
    const [held, declared] = [bytesOf(peak.held, CAUSES[cause]), bytesOf(peak.logical, CAUSES[cause])];
    const isEqual = Math.abs(declared - predicted) < 1;
    return { cause, held, declared, predicted, why: isEqual ? '' : why(parts, peak).join('; ') };
  };
  return [
    row('parameters', memory.params, parameterReasons),
    row('gradients', memory.grads, gradientReasons),
    row('optimizer', memory.optimizer, optimizerReasons),
    row('activations', memory.activations, activationReasons),
    row('temporary', memory.temporary, temporaryReasons),
    {
      cause: 'peak',
      held: peak.heldBytes,
      declared: peak.logicalBytes,
      predicted: memory.peakBytes,
      why: `the peak is in ${peak.phase === 'step' ? '' : `${peak.phase} here, and in `}the ${memory.phase} there`,
    },
  ];
}

const CAUSES = {
  parameters: ['param.shard', 'param.full', 'buffer'],
  gradients: ['grad.shard', 'grad.full'],
  optimizer: ['optimizer'],
  activations: ['activation', 'batch'],
  temporary: ['comm', 'temp'],
} as const satisfies Readonly<Record<string, readonly (keyof BytesByCause)[]>>;

function bytesOf(bytes: BytesByCause, causes: readonly (keyof BytesByCause)[]): Bytes {
  return sumOf(causes, (cause) => bytes[cause]);
}

type Parts = ReturnType<typeof partsOf>;

/** Returns the parts of a prediction's peak that explain it. */
function partsOf({ layout, prediction: { memory } }: Planned) {
  const stage = stageOf(layout, memory.stage);
  const bytes = stateBytesOf(layout);
  const sizes = tokenSizesOf(layout);
  const { forward, backward } = lossBytesOf(layout, sizes);
  const logits = stage.isLast ? (sizes.tokens * layout.model.logits) / layout.tp : 0;
  return {
    layout,
    memory,
    bytes,
    whole: wholeUnits(layout, stage, bytes),
    isSharded: shardedStates(layout).includes('parameter'),
    lossBytes: memory.phase === 'loss' ? logits * Math.max(forward, backward) : 0,
  };
}

/** Programs whose parameters are in 16 bits have the float32 values in the optimizer's states. */
function master({ layout: { stack }, bytes }: Parts): readonly string[] {
  return bytes.parameter >= FLOAT_BYTES
    ? []
    : [
        `${stack} stores parameters in ${bytes.parameter} bytes, and float32 copies with the optimizer's states`,
      ];
}

const FLOAT_BYTES = 4;

/** Why shards here have other elements than the equal parts of a plan. */
function divided({ layout: { tp, pp } }: Parts): readonly string[] {
  if (tp > 1)
    return [
      'a rank of tensor parallelism has norms and some biases whole here, and padded rows of the vocabulary',
    ];
  return [pp > 1 ? 'stages here have other parameters' : 'shards here are rounded up to whole elements'];
}

function parameterReasons(parts: Parts, { logical }: DryRunPeak): readonly string[] {
  const { whole, isSharded } = parts;
  const masterReasons = master(parts);
  const gathered = `whole parameters of units in use take ${formatBytes(logical['param.full'])} here, and ${formatBytes(whole.parameters)} there`;
  if (isSharded) return [...masterReasons, gathered, ...divided(parts)].slice(0, 2);
  const copies = `autocast holds 16-bit copies of all weights there (${formatBytes(whole.parameters)}), and a unit's copy here`;
  if (whole.parameters > 0) return [...masterReasons, copies];
  return masterReasons.length > 0 ? masterReasons : divided(parts);
}

function gradientReasons(parts: Parts, { logical }: DryRunPeak): readonly string[] {
  const { bytes, layout, isSharded } = parts;
  const short =
    bytes.gradient < FLOAT_BYTES * layout.trainedShare
      ? [`${layout.stack} stores gradients in ${bytes.gradient / layout.trainedShare} bytes`]
      : [];
  const here =
    bytesOf(logical, CAUSES.gradients) === 0
      ? 'none exist here at the peak'
      : 'the peaks are at different moments';
  const there =
    isSharded && layout.stack === 'fsdp2'
      ? 'there the stream that reduces keeps the memory of sharded gradients'
      : 'there gradients stay allocated in forward';
  return [...short, `${here}; ${there}`];
}

function optimizerReasons(parts: Parts): readonly string[] {
  const masterReasons = master(parts);
  return masterReasons.length > 0 ? masterReasons : divided(parts);
}

function activationReasons({ lossBytes }: Parts): readonly string[] {
  const saved = "PyTorch's operations save other tensors for backward than the fused kernels here";
  return lossBytes === 0
    ? [saved]
    : [saved, `the loss takes ${formatBytes(lossBytes)} there, and its gradient replaces the logits here`];
}

function temporaryReasons({ layout, memory, whole }: Parts): readonly string[] {
  const { buckets, gathering } = whole;
  const workspaces = workspaceBytes(layout);
  const here = 'here are results of kernels and collectives';
  const rest = memory.temporary - workspaces - buckets - gathering;
  if (rest < 0)
    return ['there the allocator has freed holes and gathered buffers, because the memory is full', here];
  const there = Object.entries({
    "cuBLAS's workspaces": workspaces,
    buckets,
    'all-gathers in flight': gathering,
    "the allocator's holes and other buffers": rest,
  });
  const words = there
    .filter(([, bytes]) => bytes > 0)
    .map(([name, bytes]) => `${name} (${formatBytes(bytes)})`);
  return [`there are ${words.join(', ')}`, here];
}
