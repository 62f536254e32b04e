import { beginsWith } from '../shell/program';
import type { Word } from '../shell/word';

/** A command that trains nothing: it comes before or after a training, and needs a folder of it. */
export interface HandOver {
  /** The program's name in messages. */
  readonly program: string;
  /** The words with which the command begins. */
  readonly words: readonly string[];
  /** What the command does, and what to write for a folder of shardlab. */
  readonly why: string;
}

const SERVES = 'trains nothing: it serves a model';
const DOWNLOADS = 'trains nothing: it downloads a folder, which shardlab does not do';
const READ_FOLDER = "afterwards, train with model: { from: './FOLDER' }, or with shardlab sft --model FOLDER";
const MERGED = 'output/last-merged, the folder of shardlab sft --merge_lora true or of run.savePretrained';

/** Commands of the programs that people use before and after a training. Source: the documentation of each program. */
const HAND_OVERS: readonly HandOver[] = [
  {
    program: 'ms-swift',
    words: ['swift', 'infer'],
    why: `trains nothing: it answers prompts, as run.sample does here; give it --model ${MERGED}, or --model BASE --adapters output/last`,
  },
  {
    program: 'ms-swift',
    words: ['swift', 'deploy'],
    why: `${SERVES}; give it --model ${MERGED}, or --model BASE --adapters output/last`,
  },
  {
    program: 'ms-swift',
    words: ['swift', 'app'],
    why: `${SERVES} with a page; give it --model ${MERGED}, or --model BASE --adapters output/last`,
  },
  {
    program: 'ms-swift',
    words: ['swift', 'eval'],
    why: `trains nothing: it measures a model on benchmarks; here, run.evaluate measures loss and perplexity; give it --model ${MERGED}`,
  },
  {
    program: 'ms-swift',
    words: ['swift', 'export'],
    why: 'trains nothing: it merges adapters or quantizes weights; here, shardlab sft --merge_lora true and run.savePretrained merge, and nothing quantizes; give it --model BASE --adapters output/last',
  },
  {
    program: 'vLLM',
    words: ['vllm', 'serve'],
    why: `${SERVES}; give it ${MERGED}, or BASE --enable-lora --lora-modules NAME=output/last`,
  },
  {
    program: 'vLLM',
    words: ['python', '-m', 'vllm.entrypoints.openai.api_server'],
    why: `${SERVES}; give it --model ${MERGED}, or --model BASE --enable-lora --lora-modules NAME=output/last`,
  },
  {
    program: 'SGLang',
    words: ['python', '-m', 'sglang.launch_server'],
    why: `${SERVES}; give it --model-path ${MERGED}, or --model-path BASE --lora-paths NAME=output/last`,
  },
  {
    program: 'LMDeploy',
    words: ['lmdeploy', 'serve'],
    why: `${SERVES}; write lmdeploy serve api_server ${MERGED}, or BASE --adapters NAME=output/last`,
  },
  {
    program: 'LMDeploy',
    words: ['lmdeploy', 'chat'],
    why: `trains nothing: it answers prompts, as run.sample does here; give it ${MERGED}`,
  },
  {
    program: 'EvalScope',
    words: ['evalscope', 'eval'],
    why: `trains nothing: it measures a model on benchmarks; here, run.evaluate measures loss and perplexity; give it --model ${MERGED}`,
  },
  { program: 'ModelScope', words: ['modelscope', 'download'], why: `${DOWNLOADS}; ${READ_FOLDER}` },
  { program: 'Hugging Face', words: ['huggingface-cli', 'download'], why: `${DOWNLOADS}; ${READ_FOLDER}` },
  { program: 'Hugging Face', words: ['hf', 'download'], why: `${DOWNLOADS}; ${READ_FOLDER}` },
];

/** Returns what is said of a command that comes before or after a training; undefined for other commands. */
export function handOverOf(words: readonly Word[]): HandOver | undefined {
  return HAND_OVERS.find(({ words: start }) => beginsWith(words, start));
}

/** Returns the commands that come before or after a training, for a search by name. */
export function handOvers(): readonly HandOver[] {
  return HAND_OVERS;
}
