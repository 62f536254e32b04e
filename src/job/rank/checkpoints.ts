import type { Engine } from '../../backend/engine';
import type { LoadedCheckpoint } from '../../checkpoint/load/load-checkpoint';
import { StateDicts } from '../../checkpoint/load/state-dicts';
import type { Checkpointer } from '../../checkpoint/save/checkpointer';
import type { SaveOptions } from '../../checkpoint/save/save-plan';
import { strictNames } from '../../config/strict-names';
import { ConfigError } from '../../core/errors';
import type { Warn } from '../../core/warn';
import type { ProcessGroup } from '../../dist/types';
import { asModule, type Layer } from '../../nn/layers-model';
import type { Module } from '../../nn/module';
import type { Optimizer } from '../../optim/optimizer';

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

/** State dicts, as in FSDP's static methods. Each method is a collective: every rank calls it. */
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
     * Every rank calls it. Throws: COLLECTIVE_MISSING on all ranks when only rank 0 calls it; IO naming file, tensor and
     * offset.
     */
    async saveCheckpoint(
      given: Module | Layer,
      optimizer: Optimizer | null,
      folder: string,
      options?: SaveOptions,
    ): Promise<void> {
      const model = asModule(given, 'saveCheckpoint');
      checkFolder('saveCheckpoint', folder);
      const made = await import('../../checkpoint/save/checkpointer.js');
      checkpointer ??= new made.Checkpointer({ warn });
      await checkpointer.save({ engine, group, model, optimizer }, folder, options);
    },
    /** Loads a checkpoint's folder, whatever world and strategy saved it. Every rank calls it. Throws: IO, SHAPE. */
    async loadCheckpoint(
      given: Module | Layer,
      optimizer: Optimizer | null,
      folder: string,
    ): Promise<LoadedCheckpoint> {
      const model = asModule(given, 'loadCheckpoint');
      checkFolder('loadCheckpoint', folder);
      const { loadCheckpoint } = await import('../../checkpoint/load/load-checkpoint.js');
      return loadCheckpoint({ engine, group, model, optimizer }, folder);
    },
  };
}

/** Returns the state dict methods of this rank, as separate functions. */
export function stateDictMethods(engine: Engine, group: ProcessGroup): StateDictMethods {
  const dicts = new StateDicts({ engine, group });
  const bound = STATE_DICT_METHODS.map((name) => [name, dicts[name].bind(dicts)]);
  return Object.fromEntries(bound) as StateDictMethods; // one of each
}

function checkFolder(what: string, folder: unknown): void {
  if (typeof folder === 'string' && folder !== '') return;
  throw new ConfigError(
    `${what}(model, optimizer, folder) takes a folder's path, as 'ckpt', not ${String(folder)}`,
  );
}
