import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { ConfigError, openRegularFile, ShardlabError } from '../../core';
import {
  type HardwareCalibration,
  isBatchLine,
  ofBatchLine,
  type Place,
  type PlannedInput,
  type PlanObject,
  plannedInput,
  withoutNotes,
} from '../../planner';
import type { Io } from '../io';
import { type PlanAnswer, type PlanFailure, planAnswer, readingAnswer } from './answer';

export interface BatchOptions {
  /** A file with one JSON object per line, or '-' for stdin. */
  readonly file: string;
  /** Values that replace those of every line, such as `hardware`. */
  readonly place: Place;
  readonly calibration: HardwareCalibration | undefined;
}

/**
 * Answers each line with one line, in order and as soon as the line is read, so that only one line is in memory.
 * Throws: CONFIG if the file cannot be read.
 */
export async function planBatch(options: BatchOptions, io: Io) {
  const { file } = options;
  const input = openLines(file, io);
  let [number, numPlanned, numFailed] = [0, 0, 0];
  for await (const line of linesOf(input, file)) {
    number += 1;
    if (line.trim() === '') continue;
    const answer = answerLine(number === 1 ? line.replace(/^\uFEFF/, '') : line, number, options);
    if ('error' in answer) numFailed += 1;
    else numPlanned += 1;
    io.stdout(`${JSON.stringify(answer)}\n`);
  }
  return { numPlanned, numFailed };
}

/** Throws: CONFIG if reading the file fails. */
async function* linesOf(input: NodeJS.ReadableStream, file: string): AsyncGenerator<string> {
  try {
    yield* createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  } catch (error) {
    throw unreadable(file, error);
  }
}

function openLines(file: string, io: Io): NodeJS.ReadableStream {
  if (file === '-') {
    if (io.stdin === undefined) throw new ConfigError('--batch -: there is no stdin to read from');
    return io.stdin;
  }
  const path = resolve(io.cwd, file);
  try {
    return createReadStream(path, { encoding: 'utf8', fd: openRegularFile(path) });
  } catch (error) {
    throw unreadable(file, error);
  }
}

function unreadable(file: string, error: unknown): ConfigError {
  const reason = error instanceof Error ? error.message : String(error);
  return new ConfigError(
    `--batch ${file} cannot be read (${reason}); give a file with one JSON object per line, or - for stdin`,
  );
}

function answerLine(
  line: string,
  number: number,
  { place, calibration }: BatchOptions,
): PlanAnswer | PlanFailure {
  let id: string | number | null = null;
  try {
    const request = jsonOf(line);
    id = idOf(request);
    const { line: ownRequest, ignored } = withoutNotes(request);
    const input = (isBatchLine(ownRequest) ? ofBatchLine(ownRequest) : ownRequest) as PlanObject; // `plannedInput` checks it
    const answer = answerOf(id ?? undefined, plannedInput(input, place, { calibration }));
    return ignored.length === 0 ? answer : { ...answer, ignored };
  } catch (error) {
    // If one line causes an internal error, the other lines are still answered.
    const message = error instanceof Error ? error.message : String(error);
    const defect = error instanceof ShardlabError ? '' : 'a defect of shardlab: ';
    return { id, error: `line ${number}: ${defect}${message}` };
  }
}

/**
 * Returns a prediction as numbers, and the assumptions that replace settings. NaN and Infinity are errors, because JSON
 * does not have them.
 */
function answerOf(id: string | number | undefined, planned: PlannedInput): PlanAnswer {
  const { seconds, memory } = planned.prediction;
  if (Number.isFinite(seconds.value) && Number.isFinite(memory.peakBytes)) {
    return { ...planAnswer(id, planned.prediction), ...readingAnswer(planned) };
  }
  throw new ConfigError(
    `the prediction is not a finite number (${seconds.value} s, ${memory.peakBytes} bytes); check the sizes`,
  );
}

function jsonOf(line: string): object {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch (error) {
    throw new ConfigError(`is not JSON (${error instanceof Error ? error.message : String(error)})`);
  }
  throw new ConfigError(`is not a JSON object; write { "id": ..., "model": ..., "gpus": ... }`);
}

function idOf(request: object): string | number | null {
  if (!('id' in request)) return null;
  const { id } = request;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}
