import { join } from 'node:path';
import { z } from 'zod';
import { wordsOfIssues } from '../../../config';
import { parseJson, readRegularFile } from '../../../core';
import { CHECKPOINT_FORMAT, STATE_FILE } from './checkpoint-mark';
import { fileError } from './file-system';

/** A key of an error's details. If its value is true, the load has not changed any state. */
export const NOTHING_WRITTEN = 'nothingWritten';

const stateSchema = z.strictObject({
  format: z.literal(CHECKPOINT_FORMAT),
  version: z.literal(1),
  /** An id that is unique for each save. */
  id: z.string(),
  state_dict_type: z.enum(['FULL_STATE_DICT', 'SHARDED_STATE_DICT']),
  /** Number of ranks that wrote the checkpoint. */
  world: z.int().min(1),
  optimizer: z
    .strictObject({
      steps: z.int().min(0),
      /** The number of steps without an update, by the parameter's name; only parameters that had such steps are listed. */
      stepsLeftOut: z.record(z.string(), z.int().min(1)).optional(),
      /** The frozen parameters that were updated before, so that they have states; omitted if there are none. */
      updatedFrozen: z.array(z.string()).optional(),
      /** The parameters that a delayed update leaves out in the next step; omitted if there are none. */
      leftOutNext: z.array(z.string()).optional(),
      lr: z.number(),
      /** The learning rate of each group of parameters; omitted if there is one group. */
      lrs: z.array(z.number()).optional(),
      states: z.array(z.string()),
    })
    .nullable(),
  /** The trainer's state as plain JSON. */
  trainer: z.json(),
  /** Every file of the checkpoint except trainer_state.json. */
  files: z.array(z.string()),
});

/** The content of trainer_state.json, which describes the checkpoint. */
export type CheckpointState = z.output<typeof stateSchema>;
export type Json = z.output<ReturnType<typeof z.json>>;

/** Returns the description of the checkpoint in a folder; undefined if the folder has no complete checkpoint. */
export function stateOf(folder: string): CheckpointState | undefined {
  const file = join(folder, STATE_FILE);
  try {
    return parseCheckpointState(readRegularFile(file), file);
  } catch {
    return undefined;
  }
}

/** The number of faults that an error names. */
const MOST_ISSUES = 8;

/** Parses trainer_state.json. Throws: IO, with the file's name. */
export function parseCheckpointState(text: string, file: string): CheckpointState {
  let json: unknown;
  try {
    json = parseJson(text);
  } catch (cause) {
    throw fileError(`${file} is not JSON: ${String(cause)}`, { file });
  }
  const parsed = stateSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const wrong = wordsOfIssues(parsed.error.issues.slice(0, MOST_ISSUES));
  throw fileError(
    `${file} does not have the form that a save writes (${wrong}); load an earlier checkpoint, or only the model: { parametersOnly: true }`,
    { file },
  );
}
