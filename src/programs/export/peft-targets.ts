import type { LoraConfig } from '../../config';
import { buildModel, targetedLayers } from '../../nn';
import { peftTarget } from '../../training';
import type { Exported } from '../rows/key-row';
import { type BundleFacts, exportedOf } from './target';

/**
 * Returns the facts from which the keys of programs with PEFT are written. Adapted layers have their full names where PEFT would
 * not find them: it takes no patterns, and GPT-2's layers have other names there, and are not of a class that is called linear.
 * Throws: CONFIG for a name in `lora.targets` that fits no linear layer.
 */
export function exportedToPeft(facts: BundleFacts): Exported {
  const { config } = facts;
  const { lora } = config;
  return lora === null
    ? exportedOf(facts)
    : exportedOf({ ...facts, config: { ...config, lora: { ...lora, targets: peftTargets(facts, lora) } } });
}

function peftTargets({ config, shape }: BundleFacts, { targets }: LoraConfig): LoraConfig['targets'] {
  const layers = targetedLayers(buildModel(config), targets);
  const hasPattern = targets !== 'all-linear' && targets.some((target) => target.includes('*'));
  return shape.kind === 'llama' && !hasPattern ? targets : layers.map((layer) => peftTarget(shape, layer));
}
