/* consumer.c: uses every installed library, as a program outside this tree does. */
#include <gyre/gyre_train.h>
#include <stdio.h>

int main(void) {
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    config.position.kind = GYRE_KIND_ALIBI;
    gyre_model *model = NULL;
    gyre_error error;
    if (gyre_model_create(&model, &config, 1, &error) != GYRE_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("gyre %s: %lld weights\n", gyre_version(), (long long)gyre_model_parameters(model));
    gyre_model_free(model);
    return 0;
}
