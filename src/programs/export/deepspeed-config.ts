import { gradScalerOf, reduceDtypeOf, STRATEGIES } from '../../config';
import { torchOptimizer } from './optimizer-arguments';
import { jsonText } from './python';
import { type BundleFacts, nameIn } from './target';

/** Returns ds_config.json. For Accelerate, it has no optimizer, because Accelerate's script makes the optimizer. */
export function deepSpeedConfig(facts: BundleFacts, { hasOptimizer = true } = {}): string {
  const { config } = facts;
  const { clipNorm, batch, accumulation, offload, mixedPrecision } = config;
  const { name, args } = torchOptimizer(config);
  const reduce = reduceDtypeOf(config);
  const short = { float32: 'fp32', bfloat16: 'bf16', float16: 'fp16' } as const;
  const document = {
    [nameIn('deepSpeed', 'batch')]: batch,
    [nameIn('deepSpeed', 'accumulation')]: accumulation,
    ...(clipNorm !== null && { [nameIn('deepSpeed', 'clipNorm')]: clipNorm }),
    ...(hasOptimizer && {
      // torch_adam chooses PyTorch's own Adam, which needs no compiler.
      optimizer: {
        type: name,
        params: {
          ...args,
          ...(config.optimizer.kind !== 'sgd' && { torch_adam: true }),
          // Unless `adam_w_mode` is false, DeepSpeed's Adam is AdamW.
          ...(config.optimizer.kind === 'adam' && { adam_w_mode: false }),
        },
      },
    }),
    zero_optimization: zeroSection(facts),
    zero_allow_untested_optimizer: true,
    ...(STRATEGIES[config.parallel.strategy].zeroStage > 0 &&
      (offload.optimizer || offload.parameters) && { zero_force_ds_cpu_optimizer: false }),
    ...(mixedPrecision?.paramDtype === 'bfloat16' && { bf16: { enabled: true } }),
    ...(mixedPrecision?.paramDtype === 'float16' && { fp16: fp16Section(facts) }),
    ...(mixedPrecision !== null && {
      [nameIn('deepSpeed', 'parallel.communicationDataType')]: short[reduce],
    }),
    steps_per_print: 1000000,
  };
  return `${jsonText(document)}\n`;
}

function zeroSection({ config, gpusPerMachine }: BundleFacts) {
  const { parallel, offload } = config;
  const { zeroStage: stage, isHybrid } = STRATEGIES[parallel.strategy];
  const onHost = { device: 'cpu', pin_memory: true } as const;
  return {
    stage,
    ...(isHybrid && { zero_hpz_partition_size: parallel.mesh?.dpShard ?? gpusPerMachine }),
    ...((offload.optimizer || offload.parameters) &&
      stage > 0 && { [nameIn('deepSpeed', 'offload.optimizer')]: onHost }),
    ...(offload.parameters && stage === 3 && { [nameIn('deepSpeed', 'offload.parameters')]: onHost }),
  };
}

function fp16Section({ config }: BundleFacts) {
  const scaler = gradScalerOf(config);
  if (scaler === null) return { enabled: true, loss_scale: 1 };
  return {
    enabled: true,
    loss_scale: 0, // dynamic
    initial_scale_power: Math.round(Math.log2(scaler.initScale)),
    loss_scale_window: scaler.growthInterval,
  };
}
