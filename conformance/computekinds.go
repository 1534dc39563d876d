package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"agent9/providers/models"
)

// embeddings checks that one text becomes one vector, in OpenAI's form.
func (c Compute) embeddings(ctx context.Context) error {
	if c.Embed == "" {
		return nil
	}
	if !slices.Contains(models.InfoOf(c.Provider).Kinds, models.Embeddings) {
		return errors.New("Info: embeddings is not among the kinds")
	}
	req, err := models.ParseRequest(models.Embeddings, models.Body{}.Set("model", c.Embed).Set("input", "some text"))
	if err != nil {
		return err
	}
	var result json.RawMessage
	usage, err := c.Provider.Run(ctx, req, func(chunk models.Chunk) error {
		result = chunk.Result
		return nil
	})
	if err != nil {
		return fmt.Errorf("Run: %w", err)
	}
	var response struct {
		Data []struct {
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(result, &response); err != nil {
		return fmt.Errorf("the result of embeddings is not a response: %w", err)
	}
	if len(response.Data) != 1 || len(response.Data[0].Embedding) == 0 {
		return fmt.Errorf("the result of embeddings has no vector: %.200s", result)
	}
	if usage.Input <= 0 || usage.Output != 0 {
		return fmt.Errorf("the usage of embeddings is %+v, want tokens in only", usage)
	}
	return nil
}
