import { join } from 'node:path';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { repositoryRoot } from '../../support/paths';

const FOLDER = join(repositoryRoot(), 'test', 'torch', 'models');
/** The file with most of the models, and the files beside it that it imports. */
export const PYTHON_FILE = join(FOLDER, 'own_inputs.py');

/** Models in Python, each in the form of its inputs and its loss. */
export const PYTHON_MODELS: Readonly<Record<string, TrainConfigInput>> = {
  'an MLP with named inputs and parameters that no pass reaches': {
    model: {
      ...{ python: PYTHON_FILE, class: 'Mlp', options: { dim: 12 } },
      ...{ batches: 'mlp_batches', loss: 'huber' },
    },
    accumulation: 2,
    parallel: { wrap: { modules: ['layers.1'] } },
  },
  'a CNN with statistics in buffers': {
    model: {
      ...{ python: PYTHON_FILE, class: 'Cnn', options: { channels: [6, 8] } },
      ...{ batches: 'cnn_batches', loss: 'cross_entropy' },
    },
    parallel: { wrap: { modules: ['conv1', 'conv2'] } },
  },
  'an LSTM with two inputs in a tuple': {
    model: {
      ...{ python: PYTHON_FILE, class: 'Lstm', options: { vocab: 11, dim: 10 } },
      ...{ batches: 'lstm_batches', loss: 'masked' },
    },
    clipNorm: 0.5,
    parallel: { wrap: { modules: ['lstm'] } },
  },
  'a transformer with a tied head and dropout, whose forward returns the loss': {
    model: {
      ...{ python: PYTHON_FILE, class: 'Transformer', options: { vocab: 13, dim: 12 } },
      batches: 'transformer_batches',
    },
    schedule: { kind: 'cosine', warmupSteps: 2 },
  },
  'two towers of experts with nested inputs and files beside': {
    model: {
      ...{ python: PYTHON_FILE, class: 'TwoTowers', options: { dim: 8, experts: 3 } },
      ...{ batches: 'towers_batches', loss: 'mse_loss' },
    },
    frozen: ['users.gate'],
  },
  'a language model on rows of tokens': {
    model: {
      ...{ python: join(FOLDER, 'own_models.py'), class: 'GPT', seq: 16 },
      options: { layers: 2, dim: 32, heads: 4, vocab: 256, seq: 16 },
    },
    batch: 2,
  },
};
