import { llamaFfn } from '../../config/settings/model';
import { dataRanksOf } from '../../config/settings/model-parallel';
import { microbatchesOf, virtualStagesOf } from '../../config/settings/pipeline';
import { gradScalerOf } from '../../config/settings/precision';
import { STRATEGIES } from '../../config/strategies';
import { PORT } from './launch-files';
import { lines } from './python';
import { type BundleFacts, type BundleFile, nameIn, worldOf } from './target';

type Flags = Readonly<Record<string, number | string | boolean | readonly number[]>>;

/** Returns launch.sh, which starts Megatron-LM's pretrain_gpt.py. */
export function megatronFiles(facts: BundleFacts): BundleFile[] {
  const { machines, gpusPerMachine } = facts;
  const place =
    machines === 1
      ? '--standalone --nnodes=1'
      : `--nnodes=${machines} --node-rank="$1" --master-addr="$MAIN" --master-port=${PORT}`;
  const text = lines(
    '#!/usr/bin/env bash',
    machines === 1
      ? '# Starts all ranks of this machine: MEGATRON=path-of-Megatron-LM ./launch.sh'
      : `# Run on every machine: MEGATRON=path-of-Megatron-LM MAIN=address-of-machine-0 ./launch.sh NUMBER (0 to ${machines - 1})`,
    'set -euo pipefail',
    'cd "$(dirname "$0")"',
    `: "\${MEGATRON:?the folder of a clone of NVIDIA/Megatron-LM}"`,
    machines > 1 && [`: "\${1:?the number of this machine}" "\${MAIN:?the address of machine 0}"`],
    // Megatron-LM demands 1 with tensor or context parallelism, and another value with FSDP2.
    `export CUDA_DEVICE_MAX_CONNECTIONS=${usesFsdp2(facts) ? 32 : 1}`,
    `exec torchrun ${place} --nproc-per-node=${gpusPerMachine} "$MEGATRON/pretrain_gpt.py" \\`,
    Object.entries(megatronFlags(facts))
      .filter(([, value]) => value !== false)
      .map(([name, value]) => `  ${flagText(name, value)} \\`),
    '  --save checkpoint',
  );
  return [{ path: 'launch.sh', text: `${text}\n`, isExecutable: true }];
}

function flagText(name: string, value: Flags[string]): string {
  const flag = `--${name.replaceAll('_', '-')}`;
  if (value === true) return flag;
  return `${flag} ${typeof value === 'object' ? value.join(' ') : value}`;
}

/** Returns Megatron-LM's arguments for a config, by their names in Python. */
export function megatronFlags(facts: BundleFacts): Flags {
  return { ...modelFlags(facts), ...parallelFlags(facts), ...trainingFlags(facts), ...dataFlags(facts) };
}

function modelFlags({ shape }: BundleFacts): Flags {
  const { layers, dim, heads, seq } = shape;
  const sizes = {
    num_layers: layers,
    hidden_size: dim,
    num_attention_heads: heads,
    [nameIn('megatron', 'data.seq')]: seq,
    max_position_embeddings: seq,
    init_method_std: 0.02,
    attention_dropout: 0,
    hidden_dropout: 0,
    untie_embeddings_and_output_weights: !shape.tied,
  };
  if (shape.kind === 'gpt') {
    const ffn = shape.ffn ?? 4 * dim;
    return {
      ...sizes,
      ffn_hidden_size: ffn,
      position_embedding_type: 'learned_absolute',
      normalization: 'LayerNorm',
    };
  }
  const { kvHeads = heads, ffn = llamaFfn(dim), qkvBias, ropeTheta, normEps } = shape;
  return {
    ...sizes,
    ffn_hidden_size: ffn,
    swiglu: true,
    position_embedding_type: 'rope',
    rotary_base: ropeTheta,
    normalization: 'RMSNorm',
    norm_epsilon: normEps,
    disable_bias_linear: true,
    add_qkv_bias: qkvBias,
    ...(kvHeads < heads && { group_query_attention: true, num_query_groups: kvHeads }),
  };
}

function parallelFlags(facts: BundleFacts): Flags {
  const { config } = facts;
  const { tp, pp, cp, cpKind, sequenceParallel, strategy } = config.parallel;
  const virtual = virtualStagesOf(config.parallel);
  return {
    [nameIn('megatron', 'parallel.tp')]: tp,
    [nameIn('megatron', 'parallel.sequenceParallel')]: sequenceParallel && tp > 1,
    [nameIn('megatron', 'parallel.pp')]: pp,
    ...(pp > 1 && virtual > 1 && { num_virtual_stages_per_pipeline_rank: virtual }),
    [nameIn('megatron', 'parallel.cp')]: cp,
    ...(cp > 1 && { [nameIn('megatron', 'parallel.cpKind')]: cpKind === 'ring' ? 'p2p' : 'a2a' }),
    use_distributed_optimizer: strategy === 'ZERO_1',
    ...(usesFsdp2(facts) && {
      use_torch_fsdp2: true,
      no_gradient_accumulation_fusion: true,
      ckpt_format: 'torch_dist',
    }),
  };
}

function usesFsdp2({ config }: BundleFacts): boolean {
  return STRATEGIES[config.parallel.strategy].shardedAtRest.includes('parameter');
}

function trainingFlags(facts: BundleFacts): Flags {
  const { config } = facts;
  const { optimizer, clipNorm, batch, accumulation, steps, seed, mixedPrecision, parallel } = config;
  const microbatch = parallel.pp > 1 ? batch / microbatchesOf(config) : batch;
  const scaler = gradScalerOf(config);
  return {
    [nameIn('megatron', 'batch')]: microbatch,
    global_batch_size: batch * accumulation * dataRanksOf(config, worldOf(facts)),
    train_iters: steps,
    seed,
    [nameIn('megatron', 'clipNorm')]: clipNorm ?? 0,
    lr: optimizer.lr,
    weight_decay: optimizer.weightDecay,
    ...(optimizer.kind === 'sgd'
      ? { optimizer: 'sgd', sgd_momentum: optimizer.momentum }
      : {
          optimizer: 'adam',
          adam_beta1: optimizer.betas[0],
          adam_beta2: optimizer.betas[1],
          adam_eps: optimizer.eps,
        }),
    bf16: mixedPrecision?.paramDtype === 'bfloat16',
    fp16: mixedPrecision?.paramDtype === 'float16',
    ...(scaler !== null && {
      initial_loss_scale: scaler.initScale,
      loss_scale_window: scaler.growthInterval,
    }),
    ...scheduleFlags(facts),
    ...recomputeFlags(config.activationCheckpointing),
  };
}

function scheduleFlags({ config }: BundleFacts): Flags {
  const { schedule, steps } = config;
  if (schedule === null) return { lr_decay_style: 'constant' };
  const { kind, warmupSteps, maxSteps = steps, etaMin } = schedule;
  // Rules refuse the other kinds.
  const style = {
    constant: 'constant',
    linear: 'linear',
    cosine: 'cosine',
    WarmupCosineLR: 'cosine',
    wsd: 'WSD',
  };
  const decay = schedule.decaySteps ?? Math.max(1, Math.round((maxSteps - warmupSteps) / 5));
  return {
    lr_decay_style: style[kind as keyof typeof style],
    lr_warmup_iters: warmupSteps,
    ...(kind !== 'constant' && { lr_decay_iters: maxSteps, min_lr: etaMin }),
    ...(kind === 'wsd' && {
      lr_wsd_decay_iters: decay,
      lr_wsd_decay_style: schedule.decayType === '1-sqrt' ? 'minus_sqrt' : schedule.decayType,
    }),
  };
}

function recomputeFlags(chosen: BundleFacts['config']['activationCheckpointing']): Flags {
  if (chosen === null) return {};
  if (chosen === 'full' || (typeof chosen === 'object' && 'everyNth' in chosen))
    return { recompute_granularity: 'full', recompute_method: 'uniform', recompute_num_layers: 1 };
  return { recompute_granularity: 'selective' };
}

function dataFlags({ shape }: BundleFacts): Flags {
  return {
    data_path: 'data/tokens',
    [nameIn('megatron', 'data.validation')]: '100,0,0',
    tokenizer_type: 'NullTokenizer',
    // NullTokenizer adds a token of its own for the end of a document.
    vocab_size: shape.vocab - 1,
    make_vocab_size_divisible_by: 1,
    log_interval: 1,
    eval_iters: 0,
  };
}
