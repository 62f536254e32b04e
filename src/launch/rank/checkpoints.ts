import { LONGEST_PATH, type PretrainedInput, strictNames } from '../../config';
import { ConfigError, shown, type Warn } from '../../core';
import type { Engine } from '../../engine';
import { asModule, type Layer, type Module } from '../../nn';
import type { Optimizer } from '../../sharding';
import {
  Checkpointer,
  type LoadedCheckpoint,
  loadCheckpoint,
  type SaveOptions,
  StateDicts,
} from '../../training';
import type { ProcessGroup } from '../../wire';
import type { LanguageModule, PretrainedFiles, PublishedModule } from './pretrained';

/** Source: torch.distributed.fsdp.StateDictType. */
export const StateDictType = strictNames(
  'StateDictType',
  { FULL_STATE_DICT: 'FULL_STATE_DICT', SHARDED_STATE_DICT: 'SHARDED_STATE_DICT' } as const,
  {
    LOCAL_STATE_DICT:
      "it contains FSDP1's flat parameters as they are in memory, which no other world can load; use SHARDED_STATE_DICT",
  } as const,
);

const STATE_DICT_METHODS = [
  'stateDictType',
  'getStateDictType',
  'stateDict',
  'loadStateDict',
  'optimStateDict',
  'optimStateDictToLoad',
  'loadOptimState',
] as const;

/** The methods for state dicts; in torch, they are static methods of FSDP. Each is a collective: every rank calls it. */
export type StateDictMethods = Pick<StateDicts, (typeof STATE_DICT_METHODS)[number]>;

/** Saves and loads models and optimizers of cells. */
export interface RankCheckpoints extends Readonly<ReturnType<typeof rankCheckpoints>> {}

/** Returns functions that save and load this rank's models. Their code is loaded on first use. */
export function rankCheckpoints(engine: Engine, group: ProcessGroup, warn: Warn) {
  let checkpointer: Checkpointer | undefined;
  return {
    StateDictType,
    /**
     * Saves a model and its optimizer (null: parameters only) into a folder; resolves when the checkpoint is in place.
     * Every rank calls it. Throws: COLLECTIVE_MISSING on all ranks when only rank 0 calls it; IO with the names of the file
     * and the tensor, and the offset.
     */
    async saveCheckpoint(
      moduleOrLayer: Module | Layer,
      optimizer: Optimizer | null,
      folder: string,
      options?: SaveOptions,
    ): Promise<void> {
      const model = asModule(moduleOrLayer, 'saveCheckpoint');
      checkFolder('saveCheckpoint', folder);
      checkpointer ??= new Checkpointer({ warn });
      await checkpointer.save({ engine, group, model, optimizer }, folder, options);
    },
    /**
     * Returns the GPT-2, Llama, Mistral, Qwen2 or Wan model of a folder in Hugging Face's format. The weights are read when
     * the model is sharded or used; each rank reads only its own shards. For Wan, write
     * fromPretrained<nn.Dit>(folder, { latent: [5, 16, 16] }).
     * Throws: CONFIG, IO, SHAPE.
     * @example
     * const model = await fromPretrained('./my-llama');
     */
    async fromPretrained<M extends PublishedModule = LanguageModule>(
      folder: string,
      options: Omit<PretrainedInput, 'from'> = {},
    ): Promise<M> {
      checkFolder('fromPretrained', folder, '');
      const { loadPretrained } = await import('./pretrained.js');
      return loadPretrained(engine, { ...options, from: folder }) as M; // the caller knows the folder's kind of model
    },
    /**
     * Saves a model's parameters, also if they are sharded, in Hugging Face's format. Every rank calls it. Throws: CONFIG
     * for a model that transformers does not have, COLLECTIVE_MISSING on all ranks when only rank 0 calls it, IO.
     */
    async savePretrained(module: Module, folder: string, options: PretrainedFiles = {}): Promise<void> {
      checkFolder('savePretrained', folder, 'model, ');
      checkpointer ??= new Checkpointer({ warn });
      const { savePretrained } = await import('./pretrained.js');
      await savePretrained({ engine, group, checkpointer }, module, folder, options);
    },
    /** Loads a checkpoint, which any world and strategy may have saved. Every rank must call this function. Throws: IO, SHAPE. */
    async loadCheckpoint(
      moduleOrLayer: Module | Layer,
      optimizer: Optimizer | null,
      folder: string,
    ): Promise<LoadedCheckpoint> {
      const model = asModule(moduleOrLayer, 'loadCheckpoint');
      checkFolder('loadCheckpoint', folder);
      return loadCheckpoint({ engine, group, model, optimizer }, folder);
    },
  };
}

/** Returns the state dict methods of this rank, as separate functions. */
export function stateDictMethods(engine: Engine, group: ProcessGroup): StateDictMethods {
  const dicts = new StateDicts({ engine, group });
  const bound = STATE_DICT_METHODS.map((name) => [name, dicts[name].bind(dicts)]);
  return Object.fromEntries(bound) as StateDictMethods; // one method per name
}

function checkFolder(caller: string, folder: unknown, before = 'model, optimizer, '): void {
  if (typeof folder === 'string' && folder !== '' && folder.length <= LONGEST_PATH) return;
  throw new ConfigError(
    `${caller}(${before}folder) takes a folder's path, such as 'ckpt', not ${shown(folder)}`,
  );
}
