import type { ConfigIssue } from './config-issue';
import { modelShape } from './model-config';
import { precisionConflict } from './precision-config';
import type { TrainConfig } from './train-config';

/** Settings that contradict each other or the model, each with both values and what to change. */
export function configConflicts(config: TrainConfig): ConfigIssue[] {
  return [...modelConflicts(config), ...precisionConflicts(config), ...trainingConflicts(config)];
}

function modelConflicts(config: TrainConfig): ConfigIssue[] {
  const { dim, heads, vocab } = modelShape(config);
  const found: ConfigIssue[] = [];
  if (dim % heads !== 0) {
    found.push({
      path: ['model', 'heads'],
      message: `dim ${dim} is not divisible by heads ${heads}; change one of them`,
    });
  }
  if (config.data === 'typescript' && vocab < 256) {
    found.push({
      path: ['model', 'vocab'],
      message: `vocab ${vocab} is too small for text as bytes; give at least 256`,
    });
  }
  return found;
}

function precisionConflicts(config: TrainConfig): ConfigIssue[] {
  const message = precisionConflict(config);
  return message === null ? [] : [{ path: [], message }];
}

function trainingConflicts({ optimizer, schedule, parallel }: TrainConfig): ConfigIssue[] {
  const found: ConfigIssue[] = [];
  const { kind, nesterov, momentum, lr } = optimizer;
  if (kind === 'sgd' && nesterov && momentum === 0) {
    // As torch.optim.SGD, which raises ValueError.
    found.push({
      path: ['optimizer', 'nesterov'],
      message: 'true needs a momentum, and momentum is 0; give optimizer.momentum, as 0.9',
    });
  }
  if (schedule !== null && schedule.warmupSteps >= schedule.maxSteps) {
    const { warmupSteps, maxSteps } = schedule;
    found.push({
      path: ['schedule', 'warmupSteps'],
      message: `${warmupSteps} leaves nothing of maxSteps ${maxSteps} for the cosine; give fewer than ${maxSteps}`,
    });
  }
  if (schedule !== null && schedule.etaMin > lr) {
    found.push({
      path: ['schedule', 'etaMin'],
      message: `${schedule.etaMin} is above optimizer.lr ${lr}, from which the rate falls; give at most ${lr}`,
    });
  }
  const { mesh, reshardAfterForward } = parallel;
  if (mesh !== null && typeof reshardAfterForward === 'number' && mesh.dpShard % reshardAfterForward !== 0) {
    found.push({
      path: ['parallel', 'reshardAfterForward'],
      message: `${reshardAfterForward} does not divide mesh.dpShard ${mesh.dpShard}; give a divisor of it, true or false`,
    });
  }
  return found;
}
