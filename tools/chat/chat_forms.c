/* chat_forms.c: the table of chat templates. */
#include "tools/chat/chat_forms.h"
#include <stdlib.h>
#include <string.h>

#define CHATML_USER  "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
#define PHI_4_USER   "<|im_start|>user<|im_sep|>{user}<|im_end|><|im_start|>assistant<|im_sep|>"
#define LLAMA_3_USER "<|start_header_id|>user<|end_header_id|>\n\n{user:trim}<|eot_id|>" LLAMA_3_TURN
#define LLAMA_3_TURN "<|start_header_id|>assistant<|end_header_id|>\n\n"
/* The date that the template itself falls back to, and not today's: the same command writes the same text tomorrow. */
#define LLAMA_3_DATES                                                                                                       \
    "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
#define PHI_3_USER   "<|user|>\n{user}<|end|>\n<|assistant|>\n"
#define ZEPHYR_USER  "<|user|>\n{user}{eos}\n<|assistant|>\n"
#define TULU_USER    "<|user|>\n{user}\n<|assistant|>\n"
#define GRANITE_USER "<|start_of_role|>user<|end_of_role|>{user}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"
#define GEMMA_TURN   "<end_of_turn>\n<start_of_turn>model\n"

/* The first row whose marks agree is the one. */
static const chat_form forms[] = {
    {.name = "chatml",
     .plain = CHATML_USER,
     .with_system = "<|im_start|>system\n{system}<|im_end|>\n" CHATML_USER,
     .end = "<|im_end|>",
     .has_default = 1,
     .has = {"<|im_start|>"},
     .lacks = {"<|im_sep|>", "assistant\n<think>", "## Metadata", "render_content", "trim", "system_message = 'You"}},
    {.name = "phi-4",
     .plain = PHI_4_USER,
     .with_system = "<|im_start|>system<|im_sep|>{system}<|im_end|>" PHI_4_USER,
     .end = "<|im_end|>",
     .has = {"'<|im_start|>user<|im_sep|>' + message.content + '<|im_end|>", "'<|im_start|>system<|im_sep|>'"}},
    {.name = "llama-3",
     .plain = LLAMA_3_USER,
     .with_system = "<|start_header_id|>system<|end_header_id|>\n\n{system:trim}<|eot_id|>" LLAMA_3_USER,
     .end = "<|eot_id|>",
     .has = {"'<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content", "trim", "<|eot_id|>"},
     .lacks = {"Knowledge Date", "functions", "tools"}},
    {.name = "llama-3.1",
     .plain = LLAMA_3_DATES "<|eot_id|>" LLAMA_3_USER,
     .with_system = LLAMA_3_DATES "{system:trim}<|eot_id|>" LLAMA_3_USER,
     .end = "<|eot_id|>",
     .has = {"Cutting Knowledge Date: December 2023\n", "'Today Date: ' + date_string", "date_string = '26 Jul 2024'"}},
    {.name = "llama-2",
     .plain = "[INST] {user:trim} [/INST]",
     .with_system = "[INST] <<SYS>>\n{system}\n<</SYS>>\n\n{user:rtrim} [/INST]",
     .has = {"'<<SYS>>\n' + system_message + '\n<</SYS>>\n\n'", "'[INST] ' + content.strip() + ' [/INST]'"},
     .lacks = {"You are a"}},
    {.name = "mistral-v1",
     .plain = "[INST] {user} [/INST]",
     .has = {"'[INST] ' + message.content + ' [/INST]'"},
     .lacks = {"<<SYS>>", "[AVAILABLE_TOOLS]", "[SYSTEM_PROMPT]", "system_message"}},
    {.name = "mistral-v3",
     .plain = "[INST] {user}[/INST]",
     .with_system = "[INST] {system}\n\n{user}[/INST]",
     .has = {"'[INST] ' + message.content + '[/INST]'", "'[INST] ' + system_message + '\n\n' + message.content + '[/INST]'"},
     .lacks = {"[SYSTEM_PROMPT]"}},
    {.name = "mistral-tekken",
     .plain = "[INST]{user}[/INST]",
     .with_system = "[INST]{system}\n\n{user}[/INST]",
     .has = {"'[INST]' + message.content + '[/INST]'", "'[INST]' + system_message + '\n\n' + message.content + '[/INST]'"},
     .lacks = {"[SYSTEM_PROMPT]"}},
    {.name = "gemma",
     .plain = "<start_of_turn>user\n{user:trim}" GEMMA_TURN,
     .end = "<end_of_turn>",
     .has = {"'<start_of_turn>' + role + '\n' + message.content | trim + '<end_of_turn>\n'", "System role not supported"}},
    {.name = "gemma-3",
     .plain = "<start_of_turn>user\n{user:trim}" GEMMA_TURN,
     .with_system = "<start_of_turn>user\n{system}\n\n{user:trim}" GEMMA_TURN,
     .end = "<end_of_turn>",
     .has = {"'<start_of_turn>' + role + '\n' + (first_user_prefix", "first_user_prefix = messages[0].content + '\n\n'",
             "message.content | trim"}},
    {.name = "phi-3",
     .plain = PHI_3_USER,
     .with_system = "<|system|>\n{system}<|end|>\n" PHI_3_USER,
     .end = "<|end|>",
     .has = {"'<|user|>\n' + message.content + '<|end|>\n", "'<|system|>\n' + message.content + '<|end|>\n"}},
    {.name = "zephyr",
     .plain = ZEPHYR_USER,
     .with_system = "<|system|>\n{system}{eos}\n" ZEPHYR_USER,
     .has = {"'<|user|>\n' + message.content + eos_token }}\n", "'<|system|>\n' + message.content + eos_token }}\n"}},
    {.name = "tulu",
     .plain = TULU_USER,
     .with_system = "<|system|>\n{system}\n" TULU_USER,
     .has = {"'<|user|>\n' + message.content + '\n'", "'<|system|>\n' + message.content + '\n'", "'<|assistant|>\n'"}},
    {.name = "granite",
     .plain = GRANITE_USER,
     .with_system = "<|start_of_role|>system<|end_of_role|>{system}<|end_of_text|>\n" GRANITE_USER,
     .end = "<|end_of_text|>",
     .has = {"<|start_of_role|>"},
     .lacks = {"Knowledge Cutoff", "You are"}},
};

const chat_form *chat_form_named(const char *name) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

/* -- recognising -- */
/* One way to write what Jinja has several for, so that a mark is found whichever a file has. */
static const struct {
    const char *from, *to;
} spellings[] = {{"\\n", "\n"}, {"\"", "'"}, {"['content']", ".content"}, {"['role']", ".role"}, {"' + '", ""}};

/* A spelling is never longer than what it replaces. */
static void respell(char *text, const char *from, const char *to) {
    const size_t old = strlen(from), now = strlen(to);
    char *out = text;
    for (const char *in = text; *in;) {
        if (strncmp(in, from, old) != 0) {
            *out++ = *in++;
            continue;
        }
        memcpy(out, to, now);
        out += now;
        in += old;
    }
    *out = 0;
}

static int agrees(const chat_form *form, const char *text) {
    for (int i = 0; i < CHAT_MARKS && form->has[i]; i++)
        if (!strstr(text, form->has[i])) return 0;
    for (int i = 0; i < CHAT_MARKS && form->lacks[i]; i++)
        if (strstr(text, form->lacks[i])) return 0;
    return 1;
}

/* *out = the system message that is written out between the marks of its turn, or NULL.  out = 0 if the template computes a
 * part of it. */
static int default_system(const chat_form *form, const char *text, char **out) {
    static const char begin[] = "<|im_start|>system\n", end[] = "<|im_end|>";
    for (const char *at = text; form->has_default && (at = strstr(at, begin));) {
        at += sizeof begin - 1;
        if (*at == '\'') continue; /* what follows is a message, or a list of tools */
        const char *stop = strstr(at, end);
        if (!stop || memchr(at, '\'', (size_t)(stop - at)) || memchr(at, '{', (size_t)(stop - at))) return 0;
        *out = strndup(at, (size_t)(stop - at));
        return 1;
    }
    return 1;
}

int chat_form_of(const char *template, const chat_form **out, char **system) {
    char *text = strdup(template);
    *out = NULL;
    *system = NULL;
    if (!text) return 0;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        respell(text, spellings[i].from, spellings[i].to);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !*out; i++)
        if (agrees(&forms[i], text)) *out = &forms[i];
    if (*out && !default_system(*out, text, system)) *out = NULL;
    free(text);
    return 1;
}
