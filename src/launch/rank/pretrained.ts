import { resolve } from 'node:path';
import {
  kindOf,
  type ModelConfig,
  modelShape,
  type PretrainedInput,
  parseTrainConfig,
  publishedModel,
} from '../../config';
import { ConfigError, withTemporaryFolder } from '../../core';
import type { Engine } from '../../engine';
import {
  buildModel,
  type Dit,
  type GPT,
  LanguageModel,
  type Llama,
  loadState,
  loraOf,
  type Module,
  VideoModel,
} from '../../nn';
import {
  type Checkpointer,
  openFirstState,
  processMark,
  type SaveOptions,
  writePretrained,
} from '../../training';
import type { ProcessGroup } from '../../wire';

/** A model that AutoModelForCausalLM can load. */
export type LanguageModule = GPT | Llama;

/** A model that transformers, diffusers or Wan's code can load. */
export type PublishedModule = LanguageModule | Dit;

/** How a model's files are written. */
export type PretrainedFiles = Pick<SaveOptions, 'maxShardBytes' | 'dtype'>;

/** Closes a model's files when the model is no longer used; until then, values of the model may exist only in these files. */
const OPEN = new FinalizationRegistry<() => void>((close) => close());

/** Builds the model of a folder. A parameter is read from the files when it is sharded or used. */
export function loadPretrained(engine: Engine, input: PretrainedInput): PublishedModule {
  const { model: setting } = parseTrainConfig({ model: input, data: 'synthetic' });
  const shape = modelShape({ model: setting });
  const model = buildModel({ model: setting, seed: 0 });
  const source = 'from' in shape ? shape.from : undefined;
  const first = openFirstState(source ?? input.from, shape, [...model.namedParameters().keys()]);
  try {
    loadState(engine, model, first.state);
  } catch (error) {
    first.close();
    throw error;
  }
  OPEN.register(model, first.close);
  return model as PublishedModule; // the kinds that a folder can have
}

/** The parts of a rank that a save needs. */
interface SavingRank {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly checkpointer: Checkpointer;
}

/** Saves a model in Hugging Face's format; `RankCheckpoints.savePretrained` describes the arguments. */
export async function savePretrained(
  { engine, group, checkpointer }: SavingRank,
  model: Module,
  folder: string,
  options: PretrainedFiles,
): Promise<void> {
  const shape = shapeOf(model);
  publishedModel(shape); // Refuses a kind that is not published, before anything is written.
  const path = resolve(folder);
  // All ranks have the same parent process, so they all get the same name for this folder.
  const source = `${path}.whole-${processMark(process.ppid)}`;
  const write = async (): Promise<void> => {
    await checkpointer.save({ engine, group, model, optimizer: null }, source, {
      ...options,
      type: 'FULL_STATE_DICT',
    });
    if (group.rank === 0) {
      const { maxShardBytes } = options;
      writePretrained({ source, folder: path, shape, maxShardBytes, lora: loraOf(model) });
    }
    group.barrier().wait();
  };
  await (group.rank === 0 ? withTemporaryFolder(source, write) : write());
}

/** Returns a model's sizes; for a wrapper, the sizes of the model inside. */
function shapeOf(model: Module): ModelConfig {
  for (const module of model.modules()) {
    const isKnown = module instanceof LanguageModel || module instanceof VideoModel;
    if (isKnown && kindOf(module.sizes)?.published !== undefined) return module.sizes;
  }
  throw new ConfigError(
    `savePretrained: transformers has no model like ${model.constructor.name}; it saves nn.gpt, nn.llama and nn.dit. ` +
      "Save others with saveCheckpoint(model, null, folder, { type: 'FULL_STATE_DICT' })",
  );
}
