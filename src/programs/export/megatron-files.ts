import { isGathered, llamaFfn } from '../../config';
import { MEGATRON_KEYS } from '../megatron/megatron';
import { writtenKeys } from '../rows/key-row';
import { mainLines, shellFile, startComment, torchrunOptions } from './launch-files';
import { type BundleFacts, type BundleFile, builtInShape, nameIn } from './target';

type Flags = Readonly<Record<string, number | string | boolean | readonly number[]>>;

/** Returns launch.sh, which starts Megatron-LM's pretrain_gpt.py. */
export function megatronFiles(facts: BundleFacts): BundleFile[] {
  return [
    shellFile('launch.sh', facts, startComment(facts, 'MEGATRON=path-of-Megatron-LM '), {
      commands: [
        `: "\${MEGATRON:?the folder of a clone of NVIDIA/Megatron-LM}"`,
        mainLines(facts),
        // Megatron-LM demands the value 1 with tensor or context parallelism, and any other value with FSDP2.
        `export CUDA_DEVICE_MAX_CONNECTIONS=${usesFsdp2(facts) ? 32 : 1}`,
        `exec torchrun ${torchrunOptions(facts)} "$MEGATRON/pretrain_gpt.py" \\`,
        Object.entries(megatronFlags(facts))
          .filter(([, value]) => value !== false)
          .map(([name, value]) => `  ${flagText(name, value)} \\`),
        `  --save checkpoint --save-interval ${facts.config.steps}`,
      ],
    }),
  ];
}

function flagText(name: string, value: Flags[string]): string {
  const flag = `--${name.replaceAll('_', '-')}`;
  if (value === true) return flag;
  return `${flag} ${typeof value === 'object' ? value.join(' ') : value}`;
}

/** Returns Megatron-LM's arguments for a config; the keys are the arguments' names in Python. */
export function megatronFlags(facts: BundleFacts): Flags {
  return { ...modelFlags(facts), ...settingFlags(facts), ...dataFlags(facts) };
}

function modelFlags(facts: BundleFacts): Flags {
  const shape = builtInShape(facts);
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

/** Returns the flags in the table of Megatron-LM's keys, and the flags that FSDP2 needs. */
function settingFlags(facts: BundleFacts): Flags {
  const { config, machines, gpusPerMachine } = facts;
  const flags = writtenKeys(MEGATRON_KEYS, { config, machines, ranksPerMachine: gpusPerMachine });
  return {
    ...(flags as Flags), // the rows return numbers, words and true
    ...(usesFsdp2(facts) && { no_gradient_accumulation_fusion: true, ckpt_format: 'torch_dist' }),
  };
}

function usesFsdp2({ config }: BundleFacts): boolean {
  return isGathered(config.parallel.strategy);
}

function dataFlags(facts: BundleFacts): Flags {
  const shape = builtInShape(facts);
  return {
    data_path: 'data/tokens',
    [nameIn('megatron', 'data.validation')]: '100,0,0',
    tokenizer_type: 'NullTokenizer',
    // The model's vocabulary − 1, because NullTokenizer adds its own token for the end of a document.
    vocab_size: shape.vocab - 1,
    make_vocab_size_divisible_by: 1,
    log_interval: 1,
    eval_iters: 0,
  };
}
