import { spawnSync } from 'node:child_process';
import { modelShape, type TrainConfig } from '../config';
import { ConfigError, ShardlabError } from '../core';
import { TORCH_FRAMEWORKS } from '../launch';
import type { Traced } from '../planner';
import { findTorch, pythonPath } from './find-python';
import { checkForTorch } from './settings';
import { pythonSourceOf } from './torch-run';

/** What Python answers. */
type Answer =
  | { readonly facts: Traced }
  | {
      readonly error: {
        readonly code: string;
        readonly evalue: string;
        readonly traceback: readonly string[];
      };
    };

/** The most characters of an answer: a thousand modules take about 4 MB. */
const MOST_ANSWER = 2 ** 29;

/**
 * Runs one microbatch of a config's model in Python on shapes, without values, and returns its trace; src/python/shardlab_torch/own_shapes.py
 * does so. What the user's code prints goes to stderr. Throws: CONFIG for settings that engine torch does not support, without a Python that has PyTorch, and with file and line for code
 * that cannot run on shapes; SHAPE; ENGINE if Python ended without an answer.
 */
export function tracePython(config: TrainConfig): Traced {
  requireSupported(config);
  const shape = modelShape(config);
  const source = pythonSourceOf(config);
  const python = findTorch(undefined);
  const { batch, frozen, parallel } = config;
  const request = { shape, source, config: { batch, frozen, parallel } };
  const { stdout, status, signal, error } = spawnSync(python, ['-m', 'shardlab_torch.own_plan'], {
    input: `${JSON.stringify(request)}\n`,
    encoding: 'utf8',
    maxBuffer: MOST_ANSWER,
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, PYTHONPATH: pythonPath(), PYTHONDONTWRITEBYTECODE: '1', CUDA_VISIBLE_DEVICES: '' },
  });
  if (error !== undefined)
    throw new ShardlabError('LAUNCH', `${python} could not be started: ${error.message}`, { cause: error });
  if (stdout === '') throw unanswered(python, signal ?? String(status));
  const answer = JSON.parse(stdout) as Answer; // own_plan.py writes it
  if ('facts' in answer) return answer.facts;
  const { code, evalue, traceback } = answer.error;
  if (code === 'CONFIG') throw new ConfigError(evalue);
  if (code === 'SHAPE') throw new ShardlabError(code, evalue);
  throw new ShardlabError(
    'ENGINE',
    `model.python could not run on shapes: ${evalue}\n${traceback.join('\n')}`,
  );
}

/** Throws: CONFIG for settings that no framework of engine torch supports. */
function requireSupported(config: TrainConfig): void {
  const refusals = TORCH_FRAMEWORKS.flatMap((framework) => {
    try {
      checkForTorch(config, framework, 1);
      return [];
    } catch (error) {
      return [error];
    }
  });
  if (refusals.length === TORCH_FRAMEWORKS.length) throw refusals[0];
}

function unanswered(python: string, how: string): ShardlabError {
  return new ShardlabError(
    'ENGINE',
    `${python} ended (${how}) before it had run the model on shapes; its messages are on stderr`,
  );
}
