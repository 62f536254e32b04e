import type { TrainConfigInput } from '../../../src/config/train-config';
import type { TorchFramework } from '../../../src/launch/control/torch-messages';
import { DIT, GPT, LLAMA } from '../torch-fixture';
import { type Case, STEPS } from './loss-cases';

/** Rounding differs: PyTorch computes in 16 bits, this library rounds at the borders of units. */
const [BF16_BOUND, FP16_BOUND] = [2e-2, 2e-3];

/** A scaler with which exactly the first step and the step after each four updates overflow. */
export const OVERFLOWING = {
  initScale: 2 ** 40,
  backoffFactor: 2 ** -26,
  growthFactor: 2 ** 26,
  growthInterval: 4,
};
/** Scales with which no step, and with which the first steps overflow. DeepSpeed doubles and halves its scale. */
const [LOW_SCALE, HIGH_SCALE] = [{ initScale: 1024 }, { initScale: 2 ** 24 }];

const FP16 = { mixedPrecision: 'fp16', gradScaler: LOW_SCALE } as const;
const SKIPPING = { mixedPrecision: 'fp16', gradScaler: OVERFLOWING } as const;
const KEPT = { paramDtype: 'bf16', keepLowPrecisionGrads: true } as const;
const ACCUMULATED = { accumulation: 2, clipNorm: 0.5 } as const;

/** A run on two ranks with types of 16 bits. */
function half(name: string, settings: TrainConfigInput, framework: TorchFramework = 'fsdp2'): Case {
  const bound = settings.mixedPrecision === 'fp16' ? FP16_BOUND : BF16_BOUND;
  const config = { model: GPT, batch: 2, optimizer: { lr: 3e-3 }, seed: 5, ...settings };
  return { name, ranks: 2, dp: 2, config, framework, bound };
}

/** Types of 16 bits under the frameworks of PyTorch itself. */
export const PRECISION_CASES: readonly Case[] = [
  half('gradients sent as bf16, FSDP2', { parallel: { communicationDataType: 'bf16' } }),
  half('gradients sent as bf16, FSDP1', { parallel: { communicationDataType: 'bf16' } }, 'fsdp1'),
  half('gradients sent as bf16, DDP', {
    parallel: { strategy: 'NO_SHARD', communicationDataType: 'bf16' },
    accumulation: 2,
  }),
  half('fp16 with skipped steps and a schedule, FSDP2', {
    ...SKIPPING,
    schedule: { kind: 'cosine', warmupSteps: 4, maxSteps: STEPS },
  }),
  half('fp16 with skipped steps, FSDP1', SKIPPING, 'fsdp1'),
  half('fp16 with skipped steps and accumulation, DDP', {
    ...SKIPPING,
    parallel: { strategy: 'NO_SHARD' },
    accumulation: 2,
  }),
  half('fp16, ZeRO-1', { ...FP16, parallel: { strategy: 'ZERO_1' } }),
  half('fp16 sent as fp32', { ...FP16, mixedPrecision: { paramDtype: 'fp16', reduceDtype: 'fp32' } }),
  // Adam amplifies the rounding of small gradients: with a larger rate, norms differ by some percent in single steps.
  half('fp16 with clipping and recompute, a Llama', {
    ...{ ...FP16, model: LLAMA, clipNorm: 1, optimizer: { lr: 1e-3 }, seed: 9 },
    activationCheckpointing: 'full',
  }),
  half('fp16, a DiT', { ...FP16, model: DIT, data: 'moving-shapes' }),
  {
    ...half('fp16 with skipped steps, PP 2', { ...SKIPPING, parallel: { strategy: 'NO_SHARD', pp: 2 } }),
    dp: 1,
  },
  half('low precision gradients, FSDP1', { mixedPrecision: KEPT, ...ACCUMULATED }, 'fsdp1'),
];

/** Types of 16 bits under DeepSpeed. */
export const DEEPSPEED_CASES: readonly Case[] = (['ZERO_1', 'ZERO_2', 'FULL_SHARD'] as const).flatMap(
  (strategy, i) => {
    const zero = (name: string, settings: TrainConfigInput): Case =>
      half(`${name}, DeepSpeed ZeRO-${i + 1}`, { parallel: { strategy }, ...settings }, 'deepspeed');
    return [
      zero('gradients sent as bf16', { parallel: { strategy, communicationDataType: 'bf16' } }),
      zero('bf16 with accumulation and clipping', { mixedPrecision: 'bf16', ...ACCUMULATED }),
      zero('low precision gradients', { mixedPrecision: KEPT, accumulation: 2 }),
      zero('fp16 with skipped steps', { mixedPrecision: 'fp16', gradScaler: HIGH_SCALE }),
    ];
  },
);
