import { useCodeCache } from './code-cache';

// The first import of a thread that loads as many modules as a program.
useCodeCache();
