import ts from 'typescript';
import { Flow } from './message-flow';

/** The first sentence of a message, with numbered holes for the values. */
export interface MessagePattern {
  /** The code of the error; empty if the caller of a helper function gives it. */
  readonly code: string;
  readonly file: string;
  readonly line: number;
  /** The text, with {0}, {1}, … for values. */
  readonly pattern: string;
  /** The source of each hole. */
  readonly holes: readonly string[];
}

/** What a source folder's errors can say. */
export interface Messages {
  /** The first sentences of errors. */
  readonly sentences: readonly MessagePattern[];
  /** Texts of several words that the code puts into holes of sentences. */
  readonly phrases: readonly MessagePattern[];
  /** Messages of which nothing is known, as 'file:line: expression'. */
  readonly unknown: readonly string[];
}

/** Returns the first sentences of all errors that the files of these folders throw. */
export function messagesOf(root: string, folders: readonly string[]): Messages {
  const config = ts.readConfigFile(`${root}/tsconfig.json`, ts.sys.readFile);
  const { options, fileNames } = ts.parseJsonConfigFileContent(config.config, ts.sys, root);
  const inside = (name: string): boolean => folders.some((folder) => name.startsWith(`${root}/${folder}/`));
  const program = ts.createProgram(fileNames.filter(inside), { ...options, noEmit: true });
  const files = program.getSourceFiles().filter((file) => inside(file.fileName));
  return new Flow(program.getTypeChecker(), root, files).messages();
}
