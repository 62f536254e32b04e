import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { OwnData } from '../../../config';
import { ConfigError, TimeLimit } from '../../../core';
import type { ChatMessage } from './conversation';
import { readJson, readNamed, tokenizerFiles } from './tokenizer';

/** Turns messages into the text that a model reads. */
export interface ChatTemplate {
  /** The template's source, for error messages. */
  readonly name: string;
  /** Returns the text; if `asks` is true, it ends with the beginning of an answer. Throws: CONFIG with the template's message. */
  render(messages: readonly ChatMessage[], asks: boolean): string;
}

/** The name of the built-in template. */
export const CHATML = 'chatml';

/** Source: OpenAI's ChatML, which Qwen's models use. */
const CHATML_TEXT =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/**
 * Returns the template of a user's data: the template that the data name, else the tokenizer's template (chat_template.jinja,
 * or chat_template of tokenizer_config.json). Without a tokenizer, tokens are bytes and the template is ChatML. Throws: CONFIG
 * for a missing file, and for a tokenizer without a template.
 */
export async function chatTemplateOf(
  { chatTemplate, tokenizer }: Pick<OwnData, 'chatTemplate' | 'tokenizer'>,
  baseDir: string,
  limit = new TimeLimit(),
): Promise<ChatTemplate> {
  const { name, text, tokens } = templateText(chatTemplate, tokenizer, baseDir);
  // The package is loaded on first use.
  const { Template } = await import('@huggingface/jinja');
  const failed = (error: unknown): ConfigError => {
    if (error instanceof ConfigError) return error;
    const reason = error instanceof Error ? error.message : String(error);
    return new ConfigError(
      `data.chatTemplate: ${name} fails: ${reason}; correct it, or name another template`,
    );
  };
  const words = {
    subject: `data.chatTemplate: ${name}`,
    advice: 'shorten its loops, or name another template',
  };
  let template: InstanceType<typeof Template>;
  try {
    template = new Template(text);
    template.parsed.body.unshift(...new Template(`{% set range = ${RANGE} %}`).parsed.body);
  } catch (error) {
    throw failed(error);
  }
  return {
    name,
    render(messages, asks) {
      try {
        const variables = { ...tokens, messages, add_generation_prompt: asks, [RANGE]: range };
        const numCharacters = messages.reduce((sum, { content }) => sum + content.length, 0);
        return limit.run({ ...words, numCharacters }, () => template.render(variables));
      } catch (error) {
        throw failed(error);
      }
    },
  };
}

/** The name under which a template gets `range`, which Jinja's own replaces only by a statement of the template. */
const RANGE = 'shardlab_range';
/** Source: MAX_RANGE of Jinja's sandbox, in which transformers runs templates. */
const MAX_RANGE = 100_000;

/** Returns Python's range as a list of at most MAX_RANGE numbers. Throws: an error with the number. */
function range(first: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, first] : [first, stop];
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (step === 0) throw new Error('range() step must not be zero');
  if (!(count <= MAX_RANGE)) throw new Error(`range() of ${count} numbers; the most is ${MAX_RANGE}`);
  return Array.from({ length: count }, (_, i) => from + i * step);
}

interface TemplateText {
  readonly name: string;
  readonly text: string;
  /** Special tokens by the names that templates use: bos_token, eos_token. */
  readonly tokens: Readonly<Record<string, string>>;
}

function templateText(
  templateSetting: string | undefined,
  tokenizer: string | undefined,
  baseDir: string,
): TemplateText {
  const [file, configFile] = tokenizer === undefined ? ['', ''] : tokenizerFiles(tokenizer, baseDir);
  const config = configFile !== '' && existsSync(configFile) ? readJson(configFile) : {};
  const tokens = specialTokens(config);
  if (templateSetting === CHATML || (templateSetting === undefined && tokenizer === undefined))
    return { name: CHATML, text: CHATML_TEXT, tokens };
  if (templateSetting !== undefined) {
    const named = resolve(baseDir, templateSetting);
    if (!existsSync(named))
      throw new ConfigError(
        `data.chatTemplate: there is no file ${named}; name a file of Jinja, or '${CHATML}'`,
      );
    return { name: templateSetting, text: readNamed(named, 'data.chatTemplate'), tokens };
  }
  const beside = join(dirname(file), 'chat_template.jinja');
  if (existsSync(beside)) return { name: beside, text: readNamed(beside, 'data.chatTemplate'), tokens };
  const text = templateIn(config.chat_template);
  if (text !== undefined) return { name: configFile, text, tokens };
  throw new ConfigError(
    `data.chatTemplate: the tokenizer ${tokenizer} has no chat_template; name a file of Jinja, or '${CHATML}', for example data: { instructions, chatTemplate: '${CHATML}' }`,
  );
}

/** Returns the template in tokenizer_config.json: a text, or the template with the name 'default' in a list. */
function templateIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  for (const entry of list) {
    const { name, template } = { ...(entry as object) } as Readonly<Record<string, unknown>>;
    if (name === 'default' && typeof template === 'string') return template;
  }
  return undefined;
}

function specialTokens(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const tokens = Object.entries(config).flatMap(([key, value]) => {
    if (!key.endsWith('_token')) return [];
    // A token is a text, or an object that has the text as `content`.
    const text = typeof value === 'object' && value !== null && 'content' in value ? value.content : value;
    return typeof text === 'string' ? [[key, text] as const] : [];
  });
  return Object.fromEntries(tokens);
}
