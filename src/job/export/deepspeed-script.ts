import { gradScalerOf, reduceDtypeOf } from '../../config/settings/precision';
import type { StrategyName } from '../../config/strategies';
import { modelScript } from './model-script';
import { indented, jsonText, lines } from './python';
import {
  freezeLines,
  LOAD_WEIGHTS,
  microbatchIndex,
  openTokens,
  stepNumber,
  torchOptimizer,
  trainedParameters,
  wholeScript,
} from './script-parts';
import { type BundleFacts, nameIn } from './target';

/** DeepSpeed's stage for each strategy. No stage equals SHARD_GRAD_OP or a hybrid strategy; these get the most similar stage. */
export const ZERO_STAGES: Readonly<Record<StrategyName, 0 | 1 | 2 | 3>> = {
  NO_SHARD: 0,
  ZERO_1: 1,
  ZERO_2: 2,
  SHARD_GRAD_OP: 2,
  FULL_SHARD: 3,
  HYBRID_SHARD: 3,
  _HYBRID_SHARD_ZERO2: 3,
};

/** Returns train.py for DeepSpeed; the strategy is in ds_config.json. */
export function deepSpeedScript(facts: BundleFacts): string {
  const { config, shape } = facts;
  const isPartitioned = ZERO_STAGES[config.parallel.strategy] === 3;
  // Non-reentrant activation checkpoints compare the shapes of saved tensors, which ZeRO-3 changes before backward.
  const model = modelScript(facts, { recompute: isPartitioned ? 'use_reentrant=True' : undefined });
  const outside = isPartitioned ? model.readOutside : [];
  return wholeScript(facts, model, {
    title: `Trains a ${shape.kind === 'gpt' ? 'GPT' : 'Llama'} by DeepSpeed. README.md says how to start it.`,
    imports: ['import deepspeed', 'import torch.distributed as dist'],
    functions: [
      lines(
        'def main():',
        '    deepspeed.init_distributed()',
        '    rank, world = dist.get_rank(), dist.get_world_size()',
        openTokens('world'),
        `    model = ${model.className}()`,
        LOAD_WEIGHTS,
        freezeLines(config),
        outside.map(
          (parameter) =>
            `    deepspeed.zero.register_external_parameter(model, ${parameter})  # read outside of its module`,
        ),
        '    engine, *_ = deepspeed.initialize(',
        '        model=model,',
        `        model_parameters=${trainedParameters(config)},`,
        '        config=os.path.join(HERE, "ds_config.json"),',
        config.schedule !== null && '        lr_scheduler=lambda optimizer: LambdaLR(optimizer, lr_factor),',
        '    )',
        '    for step in range(STEPS):',
        '        total = torch.zeros((), device=engine.device)',
        passLines(facts),
        '        dist.all_reduce(total)',
        '        if rank == 0:',
        `            print(f"step {${stepNumber(facts)}} loss {total.item() / world:.6f}", flush=True)`,
        '    engine.save_checkpoint(os.path.join(HERE, "checkpoint"))',
        '    dist.destroy_process_group()',
      ),
    ],
  });
}

function passLines(facts: BundleFacts): string {
  const isOne = facts.config.accumulation === 1;
  const work = lines(
    `inputs, targets = read_batch(tokens, rank, ${microbatchIndex(facts)}, engine.device)`,
    'loss = engine(inputs, targets)',
    isOne ? 'engine.backward(loss)' : 'engine.backward(loss)  # divides by ACCUMULATION',
    isOne ? 'engine.step()' : 'engine.step()  # steps after the last microbatch',
    `total += loss.detach()${isOne ? '' : ' / ACCUMULATION'}`,
  );
  return indented(isOne ? work : lines('for i in range(ACCUMULATION):', indented(work)), 2);
}

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
    ...(ZERO_STAGES[config.parallel.strategy] > 0 &&
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
  const stage = ZERO_STAGES[parallel.strategy];
  const isHybrid = parallel.strategy === 'HYBRID_SHARD' || parallel.strategy === '_HYBRID_SHARD_ZERO2';
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
