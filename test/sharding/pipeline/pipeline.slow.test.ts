import { pipelineSuite } from './pipeline-suite';

pipelineSuite(3, {
  'more stages than microbatches': {
    model: 'tied GPT',
    schedule: 'zb',
    numMicrobatches: 2,
    numRanks: 3,
  },
  'naive GPipe, tied': {
    model: 'tied GPT',
    schedule: 'gpipe',
    numMicrobatches: 4,
    numRanks: 3,
    isNaive: true,
  },
  'GPipe on 3 stages, by parameters': {
    model: 'tied GPT',
    schedule: 'gpipe',
    numMicrobatches: 4,
    numRanks: 3,
    split: 'parameters',
    maxNorm: 0.5,
  },
});

pipelineSuite(4, {
  'interleaved on 4 ranks': {
    model: 'wide GPT',
    schedule: 'interleaved',
    numMicrobatches: 4,
    numRanks: 4,
    virtualStages: 2,
    maxNorm: 0.5,
  },
  'DDP over 2 pipelines, tied': {
    model: 'tied GPT',
    schedule: '1f1b',
    numMicrobatches: 3,
    numRanks: 2,
    wrap: 'DDP',
    maxNorm: 0.5,
  },
  'fullyShard over 2 pipelines, tied': {
    model: 'tied GPT',
    schedule: '1f1b',
    numMicrobatches: 3,
    numRanks: 2,
    wrap: 'fullyShard',
    maxNorm: 0.5,
  },
  'fullyShard over 2 pipelines, interleaved, with recompute': {
    model: 'tied GPT',
    schedule: 'interleaved',
    numMicrobatches: 2,
    numRanks: 2,
    virtualStages: 2,
    wrap: 'fullyShard',
    recompute: true,
  },
  'fullyShard over 2 pipelines, zero bubble': {
    model: 'Llama',
    schedule: 'zb',
    numMicrobatches: 3,
    numRanks: 2,
    wrap: 'fullyShard',
  },
});
