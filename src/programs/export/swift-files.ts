import { writtenKeys } from '../rows/key-row';
import { MEGATRON_SWIFT } from '../trainers/megatron-swift';
import { isBySwiftFsdp, SWIFT, SWIFT_FSDP_FILE } from '../trainers/swift';
import { fsdpSection } from './accelerate-files';
import { environmentFile } from './launch-files';
import { modelSource } from './model-folder';
import { exportedToPeft } from './peft-targets';
import type { BundleFacts, BundleFile } from './target';

/** Whether swift trains by Megatron-LM, because `swift sft` has no tensor parallelism and no pipeline. */
export function isByMegatron({ config: { parallel } }: Pick<BundleFacts, 'config'>): boolean {
  return parallel.tp * parallel.pp > 1;
}

/** Returns the table of arguments of `swift sft` or `megatron sft`. */
export function swiftKeys(facts: BundleFacts) {
  return (isByMegatron(facts) ? MEGATRON_SWIFT : SWIFT).keys;
}

/** Returns launch.sh and, if FSDP shards the model, the file with its settings. */
export function swiftFiles(facts: BundleFacts): BundleFile[] {
  const isMegatron = isByMegatron(facts);
  const values: Readonly<Record<string, unknown>> = {
    model: modelSource(facts),
    dataset: './data/train.jsonl',
    // Texts are used unchanged, and all of their tokens are trained.
    use_chat_template: false,
    loss_scale: 'all',
    ...writtenKeys(swiftKeys(facts), exportedToPeft(facts)),
    output_dir: 'checkpoint',
  };
  const launch = environmentFile(
    facts,
    // Megatron-LM demands the value 1 with tensor parallelism; Megatron-FSDP demands a greater value.
    isMegatron && `export CUDA_DEVICE_MAX_CONNECTIONS=${'use_megatron_fsdp' in values ? 32 : 1}`,
    `exec ${isMegatron ? 'megatron' : 'swift'} sft \\`,
    `${Object.entries(values)
      .map(([key, value]) => `  --${key} ${argumentText(value)}`)
      .join(' \\\n')}`,
  );
  return isMegatron || !isBySwiftFsdp(facts)
    ? [launch]
    : [launch, { path: SWIFT_FSDP_FILE, text: fsdpText(facts) }];
}

function argumentText(value: unknown): string {
  if (Array.isArray(value)) return value.map(argumentText).join(' ');
  return typeof value === 'object' ? `'${JSON.stringify(value)}'` : String(value);
}

/** Returns the file for --fsdp. swift takes the keys without the prefix `fsdp_`, except for `fsdp_version`. */
function fsdpText(facts: BundleFacts): string {
  const { wrap } = facts.config.parallel;
  const { offload, activationCheckpointing } = facts.config;
  const { fsdp_version, fsdp_offload_params: _, ...section } = fsdpSection(facts, undefined);
  const plain = Object.entries(section).map(([key, value]) => [key.replace(/^fsdp_/, ''), value]);
  const words = [
    'full_shard',
    ...(wrap === 'root' ? [] : ['auto_wrap']),
    ...(offload.parameters ? ['offload'] : []),
  ];
  const document = {
    fsdp: words.join(' '),
    fsdp_config: {
      fsdp_version,
      ...Object.fromEntries(plain),
      activation_checkpointing: activationCheckpointing !== null,
    },
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
