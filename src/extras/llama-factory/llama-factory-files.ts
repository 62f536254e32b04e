import { isGathered } from '../../config';
import {
  accelerateFiles,
  type BundleFacts,
  type BundleFile,
  deepSpeedConfig,
  environmentFile,
  exportedToPeft,
  isByDeepSpeed,
  modelSource,
  numberText,
  writtenKeys,
} from '../../programs/toolkit';
import { DEEPSPEED_FILE, LLAMA_FACTORY } from './llama-factory';

const SETTINGS_FILE = 'train.yaml';

/**
 * Returns train.yaml, the description of its data set, and the files that start the training. FSDP is part of Accelerate, so its
 * settings are in a config file of Accelerate.
 */
export function llamaFactoryFiles(facts: BundleFacts): BundleFile[] {
  return [
    { path: SETTINGS_FILE, text: settingsText(facts) },
    {
      path: 'data/dataset_info.json',
      text: `${JSON.stringify({ train: { file_name: 'train.jsonl', columns: { prompt: 'text' } } }, null, 2)}\n`,
    },
    ...(isByAccelerate(facts)
      ? accelerateFiles(facts, {
          scripts: [`-m llamafactory.launcher ${SETTINGS_FILE}`],
          blockClass: undefined,
        })
      : [environmentFile(facts, 'export FORCE_TORCHRUN=1', `exec llamafactory-cli train ${SETTINGS_FILE}`)]),
    ...(isByDeepSpeed(facts)
      ? [{ path: DEEPSPEED_FILE, text: deepSpeedConfig(facts, { hasOptimizer: false }) }]
      : []),
  ];
}

/** Whether Accelerate's FSDP shards the model. */
export function isByAccelerate({ config }: Pick<BundleFacts, 'config'>): boolean {
  return isGathered(config.parallel.strategy);
}

function settingsText(facts: BundleFacts): string {
  const values = {
    stage: 'pt',
    do_train: true,
    model_name_or_path: modelSource(facts),
    dataset: 'train',
    dataset_dir: 'data',
    ...writtenKeys(LLAMA_FACTORY.keys, exportedToPeft(facts)),
    output_dir: 'checkpoint',
    overwrite_output_dir: true,
    logging_steps: 1,
  };
  return `${Object.entries(values)
    .map(([key, value]) => `${key}: ${yamlValue(key, value)}`)
    .join('\n')}\n`;
}

/** Writes a value for PyYAML, which reads 1e-8 as a text, but 1.0e-8 as a number. */
function yamlValue(key: string, value: unknown): string {
  const plain = typeof value === 'string' && /^[\w./-]+$/.test(value) ? value : JSON.stringify(value);
  const text = typeof value === 'number' ? numberText(key, value) : plain;
  return text.replaceAll(/(?<![\w.])(\d+)(?=e[+-]\d)/g, '$1.0');
}
