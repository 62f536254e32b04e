import { shortened, shortenedWithin } from './shortened';

/** The kind of an error, as a word that programs can test. */
export type ErrorCode =
  | 'CONFIG' // a setting is wrong, unknown or contradictory
  | 'MESH' // mesh and world do not fit
  | 'SHAPE' // a tensor's shape or dtype does not fit
  | 'COLLECTIVE_MISMATCH' // ranks called different collectives
  | 'COLLECTIVE_MISSING' // ranks wait for a call that another rank can make no more: its work has ended, or it waits too
  | 'RANK_DIED' // a rank's process ended
  | 'RANK_FAILED' // a rank's code threw
  | 'CALLBACK' // a user's function that a run calls threw
  | 'LAUNCH' // ranks could not be started
  | 'INTERRUPTED' // the user stopped the work
  | 'ABORTED' // work was cancelled because another rank failed
  | 'OUT_OF_MEMORY' // the engine's heap, the memory limit or the container is full
  | 'ENGINE' // an engine is missing, damaged, or cannot run an operation
  | 'TRANSPORT' // a link between processes failed
  | 'CLOSED' // the job or group was shut down
  | 'IO' // a file could not be read or written
  | 'CHECK' // two results that must be equal differ
  | 'INTERNAL'; // a defect of shardlab itself

/** Values of an error for programs and figures, as plain JSON. */
export type ErrorDetails = Readonly<Record<string, unknown>>;

export interface ErrorJson {
  readonly code: ErrorCode;
  readonly message: string;
  readonly rank?: number | undefined;
  readonly details?: ErrorDetails | undefined;
  readonly stack?: string | undefined;
}

/**
 * An error that shardlab throws on purpose. Its message says what happened, where, and what to do. The error is sent between
 * processes as JSON, with its code.
 */
export class ShardlabError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  /** The rank that reports the error, if any; the message then begins with "[rank r/w]". */
  readonly rank: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: ErrorDetails; cause?: unknown; rank?: number | undefined } = {},
  ) {
    super(presentable(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details ?? {};
    this.rank = options.rank;
  }

  override get name(): string {
    return `ShardlabError[${this.code}]`;
  }

  toJSON(): ErrorJson {
    const { code, message, rank, details, stack } = this;
    return { code, message, rank, details, stack };
  }

  static fromJSON(json: ErrorJson): ShardlabError {
    const error = new ShardlabError(json.code, json.message, {
      details: json.details ?? {},
      rank: json.rank,
    });
    if (json.stack !== undefined) error.stack = json.stack;
    return error;
  }
}

/**
 * Returns an error as JSON. The JSON of an error that is not shardlab's has the code `code`, and its text begins with
 * `context`.
 */
export function errorJson(error: unknown, code: ErrorCode = 'INTERNAL', context = ''): ErrorJson {
  if (error instanceof ShardlabError) return error.toJSON();
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code, message: `${context}${text}` };
}

/** Returns the kind of a value for a message: 'an array', 'a Tensor', 'undefined'. */
export function classOf(value: unknown): string {
  try {
    return readClassOf(value);
  } catch {
    return 'an object that throws when it is read';
  }
}

function readClassOf(value: unknown): string {
  if (value instanceof Function) return 'a function';
  // A module of a model is callable too, but the message names the module's class.
  const hasClass = typeof value === 'object' || typeof value === 'function';
  if (!hasClass || value === null) return shortened(String(value));
  return Array.isArray(value) ? 'an array' : `a ${value.constructor?.name ?? 'object'}`;
}

/** The number of characters of the longest message. Longer ones are lists of all that is wrong with a file that others wrote. */
const MOST_MESSAGE = 20_000;
/** Characters that a terminal obeys, which names of others' files and tensors may have; line ends and tabs stay. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/** Returns a message that fits a page and that shows the characters that a terminal would obey. */
function presentable(message: string): string {
  const cut = shortenedWithin(message, MOST_MESSAGE);
  return cut.replace(CONTROL, (letter) => `\\x${letter.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** The error for a setting that cannot be used. Its message names the setting, its value, and what to change. */
export class ConfigError extends ShardlabError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('CONFIG', message, { details });
  }
}
