import type { TrainConfigInput } from '../../../src/config/train-config';
import type { TorchFramework } from '../../../src/launch/control/torch-messages';
import { DIT, LLAMA, T5 } from '../torch-fixture';

/** What a document writes, and the sizes of its stand-in. */
export interface DocumentCase {
  readonly name: string;
  /** The document's own files and lines of test/data/dialects, which are read as they stand; earlier ones win. */
  readonly texts: readonly string[];
  /** What the document writes elsewhere, such as in Python code. */
  readonly written: TrainConfigInput;
  /** Smaller sizes, and rates with which a few steps change the loss. They change no way of sharding. */
  readonly smaller: TrainConfigInput;
  readonly ranks: 2 | 8;
  readonly framework: TorchFramework;
  /** The settings that PyTorch's ranks still refuse. An empty list: the case trains as written. */
  readonly missing: readonly string[];
  /** The largest difference of a loss from that of this library's ranks. */
  readonly bound: number;
}

const FLOAT32_BOUND = 1e-5;
/** Rounding to 16 bits differs: PyTorch also computes in it, this library rounds at the borders of units. */
const HALF_BOUND = 2e-2;

const SMALLER = {
  ...{ batch: 2, optimizer: { lr: 3e-3 }, schedule: { maxSteps: 8 }, steps: 8, seed: 5 },
} satisfies TrainConfigInput;
const VIDEOS = { ...SMALLER, model: DIT, data: 'moving-shapes' } satisfies TrainConfigInput;
/** Two experts and a text encoder, on two ranks in place of eight. */
const WAN = {
  ...{ ...VIDEOS, textEncoder: { model: T5 }, parallel: { cp: 2 } },
  schedule: { warmupSteps: 2, maxSteps: 8 },
} satisfies TrainConfigInput;
/** The training of one of Wan2.2's experts, or of Wan2.1, which has no experts. */
const ONE_EXPERT = { ...VIDEOS, model: { ...DIT, experts: 1 } } satisfies TrainConfigInput;

/** The recipes of the five documents. */
export const DOCUMENT_CASES: readonly DocumentCase[] = [
  {
    name: 'wan22-fsdp: two experts, a sharded text encoder, Ulysses, bf16, and a checkpoint in every fourth block',
    texts: ['launches.txt:1'],
    written: {
      parallel: {
        wrap: 'blocks',
        forwardPrefetch: true,
        unitStrategies: [
          { modules: 'high_noise_model', strategy: 'SHARD_GRAD_OP' },
          { modules: 'low_noise_model', strategy: 'SHARD_GRAD_OP' },
        ],
      },
      mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'float32', bufferDtype: 'bfloat16' },
      activationCheckpointing: { everyNth: 4 },
      optimizer: { kind: 'adamW', betas: [0.9, 0.999], eps: 1e-8, fused: true, delayedUpdate: true },
      schedule: { kind: 'cosine', maxSteps: 150_000, etaMin: 2.5e-6 },
      clipNorm: 1,
    },
    smaller: WAN,
    ranks: 2,
    framework: 'fsdp1',
    missing: [],
    bound: HALF_BOUND,
  },
  {
    // It contradicts the FSDP call, whose gradients travel in float32, so it is a case of its own.
    name: "wan22-fsdp: the same launch with the document's ds_config, whose gradients travel in fp16",
    texts: ['launches.txt:1', 'deepspeed_ulysses.json'],
    written: {},
    smaller: WAN,
    ranks: 2,
    framework: 'fsdp2',
    missing: [],
    bound: HALF_BOUND,
  },
  {
    name: "fsdp-guide: the production template, with the document's fp16 in the form that FSDP takes",
    texts: [],
    written: {
      parallel: { strategy: 'FULL_SHARD', wrap: 'blocks', backwardPrefetch: 'BACKWARD_PRE' },
      mixedPrecision: { paramDtype: 'float16' },
    },
    smaller: { ...SMALLER, model: LLAMA },
    ranks: 2,
    framework: 'fsdp1',
    missing: [],
    bound: HALF_BOUND,
  },
  {
    name: 'wan-deepspeed-zero3: ZeRO-3 with optimizer and parameters in the memory of the host',
    texts: [],
    written: { parallel: { strategy: 'FULL_SHARD' }, offload: { optimizer: true, parameters: true } },
    smaller: ONE_EXPERT,
    ranks: 2,
    framework: 'deepspeed',
    missing: [],
    bound: FLOAT32_BOUND,
  },
  {
    name: "accelerate-multinode: ZeRO-2 with offload and bf16, as the machines' YAML",
    texts: ['accelerate_4x8.yaml'],
    written: {},
    smaller: ONE_EXPERT,
    ranks: 2,
    framework: 'deepspeed',
    missing: [],
    bound: HALF_BOUND,
  },
  {
    name: 'fsdp-megatron-swift: megatron with tp 4 × pp 2, whose batch is one row',
    texts: ['launches.txt:2'],
    written: {},
    smaller: { ...SMALLER, model: { ...LLAMA, kvHeads: 4 }, batch: 1 },
    ranks: 8,
    framework: 'fsdp2',
    missing: [],
    bound: FLOAT32_BOUND,
  },
  {
    name: 'fsdp-megatron-swift: FSDP with adapters, whose inputs are dropped, and fp16',
    texts: ['launches.txt:3'],
    written: {},
    smaller: { ...SMALLER, model: LLAMA, batch: 1 },
    ranks: 2,
    framework: 'fsdp2',
    missing: [],
    bound: HALF_BOUND,
  },
];
